package termtext

import (
	"fmt"
	"strconv"
	"strings"
)

func ParseBytes(text string) (int64, error) {
	units := []struct {
		suffix string
		n      int64
	}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1}, {"", 1}}
	for _, u := range units {
		number, ok := strings.CutSuffix(text, u.suffix)
		if !ok {
			continue
		}
		v, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
		if err != nil || v < 0 || v > (1<<62)/u.n {
			break
		}
		return v * u.n, nil
	}
	return 0, fmt.Errorf("%q is not a size such as 65536, 64KiB or 16MiB", text)
}
