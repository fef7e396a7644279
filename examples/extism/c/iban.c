// An Extism plugin without a kit: one function that says whether an IBAN is
// right. README.md has the build command.

typedef unsigned char u8;
typedef unsigned long long u64;

#define IMPORT(name) __attribute__((import_module("extism:host/env"), import_name(#name))) extern
#define EXPORT(name) __attribute__((export_name(#name)))

IMPORT(input_length) u64 input_length(void);
IMPORT(input_load_u8) u8 input_load_u8(u64 offset);
IMPORT(alloc) u64 alloc(u64 length);
IMPORT(store_u8) void store_u8(u64 offset, u8 byte);
IMPORT(output_set) void output_set(u64 offset, u64 length);
IMPORT(error_set) void error_set(u64 offset);

// What the plugin offers, where a host reads it without running anything: the
// function iban is a tool. It is given the tool's one text.
__asm__(".section .custom_section.agenthost.manifest,\"\",@\n"
        ".ascii \"{\\\"abi\\\":1,\\\"name\\\":\\\"iban\\\",\\\"tools\\\":[{\\\"name\\\":\\\"check_iban\\\",\\\"export\\\":\\\"iban\\\","
        "\\\"description\\\":\\\"Says whether an IBAN (bank account number) is valid, and of which country.\\\"}]}\"\n");

enum { LONGEST = 34 };

// text makes a block of a string and returns where it is.
static u64 text(const char *s, u64 n) {
	u64 at = alloc(n);
	for (u64 i = 0; i < n; i++)
		store_u8(at + i, s[i]);
	return at;
}

static int fail(const char *s, u64 n) {
	error_set(text(s, n));
	return 1;
}

#define FAIL(s) fail(s, sizeof(s) - 1)

static int letter(u8 c) { return c >= 'A' && c <= 'Z'; }
static int digit(u8 c) { return c >= '0' && c <= '9'; }

// number puts the number into s, in capitals and without spaces, and returns its
// length, or -1 if it is none.
static int number(u8 *s) {
	u64 length = input_length();
	int n = 0;
	for (u64 i = 0; i < length; i++) {
		u8 c = input_load_u8(i);
		if (c >= 'a' && c <= 'z')
			c -= 'a' - 'A';
		if (c == ' ')
			continue;
		if (n == LONGEST || !letter(c) && !digit(c))
			return -1;
		s[n++] = c;
	}
	return n;
}

// remainder of the number modulo 97, with its first four characters moved to the
// end and letters counted from 10.
static int remainder(const u8 *s, int n) {
	int r = 0;
	for (int i = 0; i < n; i++) {
		u8 c = s[(i + 4) % n];
		r = digit(c) ? (r * 10 + c - '0') % 97 : (r * 100 + c - 'A' + 10) % 97;
	}
	return r;
}

// put appends a string and returns the new end.
static int put(char *out, int end, const char *s) {
	while (*s)
		out[end++] = *s++;
	return end;
}

EXPORT(iban) int iban(void) {
	u8 s[LONGEST];
	int n = number(s);
	if (n < 15 || !letter(s[0]) || !letter(s[1]))
		return FAIL("this is no IBAN: it has 15 to 34 letters and digits and begins with a country's two letters");
	char out[LONGEST];
	int end = 0;
	end = put(out, end, remainder(s, n) == 1 ? "{\"valid\":true" : "{\"valid\":false");
	end = put(out, end, ",\"country\":\"");
	out[end++] = s[0];
	out[end++] = s[1];
	end = put(out, end, "\"}");
	output_set(text(out, end), end);
	return 0;
}
