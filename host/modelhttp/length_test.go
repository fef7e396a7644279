package modelhttp_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/agenthost/agenthost/host/modelhttp"
)

func TestLengthsAreCountedAtTheTop(t *testing.T) {
	for _, tt := range []struct {
		raw  string
		long bool // has more than 3
	}{
		{`[]`, false}, {`[1,2,3]`, false}, {`[1,2,3,4]`, true}, {` [ 1 , 2 , 3 , 4 ] `, true}, {`[1,2,3,4,5,6,7,8]`, true},
		{`[[1,2,3,4],{"a":1,"b":2,"c":3,"d":4},"1,2,3,4"]`, false}, {`["\",\\",",","\\\",,"]`, false}, {`["\"",0,0,"\\"]`, true},
		{`{"a":1,"b":[1,2],"c":3}`, false}, {`{"a":1,"b":[1,2],"c":3,"a":4}`, true},
		{`"1,2,3,4,5,6,7"`, false}, {`1234567890`, false}, {`null`, false}, {``, false},
	} {
		err := modelhttp.CheckLength([]byte(tt.raw), 3, "things")
		var long *modelhttp.TooLong
		if got := errors.As(err, &long); got != tt.long {
			t.Errorf("CheckLength(%s, 3): %v, want an error: %v", tt.raw, err, tt.long)
		}
		if tt.long && err.Error() != "an answer of more than 3 things" {
			t.Errorf("CheckLength(%s, 3): %q", tt.raw, err)
		}
	}
}

func FuzzCheckLength(f *testing.F) {
	f.Add(`[1,[2,"\\\",]"],{"a,":[]}]`)
	f.Fuzz(func(t *testing.T, raw string) {
		var list []json.RawMessage
		if json.Unmarshal([]byte(raw), &list) != nil {
			return
		}
		for limit := 1; limit < len(list)+2; limit++ {
			if err := modelhttp.CheckLength([]byte(raw), limit, "things"); (err != nil) != (len(list) > limit) {
				t.Fatalf("CheckLength(%s, %d): %v for %d elements", raw, limit, err, len(list))
			}
		}
	})
}
