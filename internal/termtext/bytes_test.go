package termtext

import "testing"

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "4096": 4096, "64KiB": 64 << 10, "16MiB": 16 << 20, "1 GiB": 1 << 30, "5kB": 5000, "5KB": 5000, "2MB": 2e6, "1GB": 1e9, "7B": 7,
	} {
		if got, err := ParseBytes(text); err != nil || got != want {
			t.Errorf("parseBytes(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "MiB", "-1", "1.5MiB", "1e3", "1TB", "9223372036854775807GiB", "٣"} {
		if got, err := ParseBytes(text); err == nil {
			t.Errorf("parseBytes(%q) = %d, want an error", text, got)
		}
	}
}
