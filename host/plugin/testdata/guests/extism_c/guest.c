// A plugin that uses each of Extism's imports as a C kit does, for tests that
// compare engines.

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

#define IMPORT(name) __attribute__((import_module("extism:host/env"), import_name(#name))) extern
#define EXPORT(name) __attribute__((export_name(#name)))

IMPORT(alloc) u64 alloc(u64 n);
IMPORT(free) void release(u64 at);
IMPORT(length) u64 length(u64 at);
IMPORT(length_unsafe) u64 length_unsafe(u64 at);
IMPORT(load_u8) u8 load_u8(u64 at);
IMPORT(load_u64) u64 load_u64(u64 at);
IMPORT(store_u8) void store_u8(u64 at, u8 v);
IMPORT(store_u64) void store_u64(u64 at, u64 v);
IMPORT(input_length) u64 input_length(void);
IMPORT(input_offset) u64 input_offset(void);
IMPORT(input_load_u8) u8 input_load_u8(u64 at);
IMPORT(input_load_u64) u64 input_load_u64(u64 at);
IMPORT(output_set) void output_set(u64 at, u64 n);
IMPORT(error_set) void error_set(u64 at);
IMPORT(config_get) u64 config_get(u64 key);
IMPORT(var_get) u64 var_get(u64 key);
IMPORT(var_set) void var_set(u64 key, u64 value);
IMPORT(log_info) void log_info(u64 at);
IMPORT(get_log_level) u32 get_log_level(void);

static u64 put(const char *s, u64 n) {
	u64 at = alloc(n), i = 0;
	for (; i + 8 <= n; i += 8)
		store_u64(at + i, *(const u64 *)(s + i));
	for (; i < n; i++)
		store_u8(at + i, s[i]);
	return at;
}

#define TEXT(s) put(s, sizeof(s) - 1)

// echo moves the input by words.
EXPORT(echo) int echo(void) {
	u64 n = input_length(), at = alloc(n), i = 0;
	for (; i + 8 <= n; i += 8)
		store_u64(at + i, input_load_u64(i));
	for (; i < n; i++)
		store_u8(at + i, input_load_u8(i));
	output_set(at, n);
	return 0;
}

// same gives the input's own block as output.
EXPORT(same) int same(void) {
	output_set(input_offset(), input_length());
	return 0;
}

// upper changes the input where it stands and returns nothing.
EXPORT(upper) void upper(void) {
	u64 at = input_offset(), n = length(at);
	for (u64 i = 0; i < n; i++) {
		u8 c = load_u8(at + i);
		store_u8(at + i, c >= 'a' && c <= 'z' ? c - 32 : c);
	}
	output_set(at, length_unsafe(at));
}

// greet puts the configured greeting before the input.
EXPORT(greet) int greet(void) {
	u64 key = TEXT("greeting"), value = config_get(key);
	release(key);
	if (!value) {
		error_set(TEXT("there is no greeting"));
		return 1;
	}
	u64 n = length(value), m = input_length(), at = alloc(n + m);
	for (u64 i = 0; i < n; i++)
		store_u8(at + i, load_u8(value + i));
	for (u64 i = 0; i < m; i++)
		store_u8(at + n + i, input_load_u8(i));
	output_set(at, n + m);
	return 0;
}

// swap answers with what the call before was given.
EXPORT(swap) int swap(void) {
	u64 before = var_get(TEXT("before"));
	if (before)
		output_set(before, length(before));
	u64 n = input_length();
	if (!n) {
		var_set(TEXT("before"), 0);
		return 0;
	}
	u64 at = alloc(n);
	for (u64 i = 0; i < n; i++)
		store_u8(at + i, input_load_u8(i));
	var_set(TEXT("before"), at);
	return 0;
}

// churn allocates and frees blocks of many sizes, some out of order, and checks
// that none touches another.
EXPORT(churn) int churn(void) {
	u64 at[16] = {0}, size[16] = {0}, seed = input_length() + 1, sum = 0;
	for (int round = 0; round < 2000; round++) {
		seed = seed * 6364136223846793005ull + 1442695040888963407ull;
		int i = seed >> 60;
		if (at[i]) {
			for (u64 k = 0; k < size[i]; k++)
				if (load_u8(at[i] + k) != (u8)(i + k))
					__builtin_trap();
			sum = sum * 31 + length(at[i]);
			release(at[i]);
			at[i] = 0;
			continue;
		}
		size[i] = (seed >> 33) % 200 + 1;
		at[i] = alloc(size[i]);
		for (u64 k = 0; k < size[i]; k++)
			store_u8(at[i] + k, (u8)(i + k));
	}
	u64 out = alloc(8);
	store_u64(out, sum);
	output_set(out, 8);
	return 0;
}

EXPORT(crash) int crash(void) {
	log_info(TEXT("about to"));
	get_log_level();
	__builtin_trap();
}
