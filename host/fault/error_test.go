package fault_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host/fault"
)

var allCodes = []fault.Code{
	fault.InvalidArgument, fault.Unauthenticated, fault.PermissionDenied, fault.NotFound, fault.AlreadyExists, fault.Conflict,
	fault.ResourceExhausted, fault.FailedPrecondition, fault.DeadlineExceeded, fault.Canceled, fault.Unavailable,
	fault.Unimplemented, fault.DataLoss, fault.Internal,
}

func TestEveryCodeHasAStatusAndAnExitCode(t *testing.T) {
	for _, c := range allCodes {
		if !c.Valid() || c.HTTPStatus() < 400 || c.HTTPStatus() > 599 || c.ExitCode() < 1 || c.ExitCode() == 2 {
			t.Errorf("code %s: valid %t, HTTP %d, exit %d", c, c.Valid(), c.HTTPStatus(), c.ExitCode())
		}
	}
	unknown := fault.Code("odd")
	if unknown.Valid() || unknown.HTTPStatus() != http.StatusInternalServerError || unknown.ExitCode() != 1 {
		t.Errorf("an unknown code: valid %t, HTTP %d, exit %d", unknown.Valid(), unknown.HTTPStatus(), unknown.ExitCode())
	}
}

func TestCodeOf(t *testing.T) {
	denied := fault.Errorf(fault.PermissionDenied, "no")
	for name, c := range map[string]struct {
		err  error
		want fault.Code
	}{
		"nil":                         {nil, ""},
		"any error":                   {errors.New("x"), fault.Internal},
		"the outermost code":          {fault.Errorf(fault.Unavailable, "outer: %w", denied), fault.Unavailable},
		"a code below plain wrapping": {fmt.Errorf("outer: %w", denied), fault.PermissionDenied},
		"a cancelled context":         {fmt.Errorf("x: %w", context.Canceled), fault.Canceled},
		"a context past its deadline": {context.DeadlineExceeded, fault.DeadlineExceeded},
	} {
		if got := fault.CodeOf(c.err); got != c.want {
			t.Errorf("CodeOf of %s = %q, want %q", name, got, c.want)
		}
	}
}

func TestCancellationIsRecognisable(t *testing.T) {
	late := fmt.Errorf("call plugin: %w", fault.Errorf(fault.DeadlineExceeded, "stopped by its limit"))
	if !errors.Is(late, context.DeadlineExceeded) || errors.Is(late, context.Canceled) {
		t.Errorf("%v is not recognised as a deadline", late)
	}
	if gone := fault.Errorf(fault.Canceled, "gone"); !errors.Is(gone, context.Canceled) {
		t.Errorf("%v is not recognised as a cancellation", gone)
	}
}

func TestErrorsSurviveTheirEncoding(t *testing.T) {
	err := fault.Errorf(fault.Unavailable, "the model %q is down", "m").WithHint("try again in %d s", 5)
	if got, want := err.Error(), `the model "m" is down; try again in 5 s`; got != want {
		t.Errorf("Error() = %s, want %s", got, want)
	}
	raw, _ := json.Marshal(err)
	want := `{"code":"unavailable","message":"the model \"m\" is down","hint":"try again in 5 s","retryable":true}`
	if string(raw) != want {
		t.Errorf("JSON is %s, want %s", raw, want)
	}
	var back fault.Error
	if e := json.Unmarshal(raw, &back); e != nil || back.Error() != err.Error() || back.Code != err.Code || !back.Retryable {
		t.Errorf("comes back as %+v, %v", back, e)
	}
	if e := json.Unmarshal([]byte(`{"code":"from_the_future","message":"m"}`), &back); e != nil || back.Code != fault.Internal {
		t.Errorf("an unknown code comes back as %q, %v; want %s", back.Code, e, fault.Internal)
	}
}

func TestAsError(t *testing.T) {
	if fault.AsError(nil) != nil {
		t.Error("AsError(nil) is not nil")
	}
	own := fault.Errorf(fault.Conflict, "x")
	if fault.AsError(own) != own {
		t.Error("AsError of an *Error is another one")
	}
	cause := fault.Errorf(fault.Unavailable, "down")
	wrapped := fault.AsError(fmt.Errorf("ask: %w", cause))
	if wrapped.Code != fault.Unavailable || wrapped.Message != "ask: down" || !wrapped.Retryable || !errors.Is(wrapped, cause) {
		t.Errorf("AsError of a wrapped *Error = %+v", wrapped)
	}
}

func TestWrapKeepsTheCode(t *testing.T) {
	if fault.Wrap(nil, "read") != nil {
		t.Error("Wrap(nil) is an error")
	}
	cause := &fault.Error{Code: fault.ResourceExhausted, Message: "too much", Hint: "wait", Retryable: true, Limit: "Rate", RetryAfter: time.Second}
	err := fault.AsError(fault.Wrap(cause, "read thread %q", "T"))
	if err.Error() != `read thread "T": too much; wait` || !errors.Is(err, cause) {
		t.Errorf("Wrap = %v, want the operation and then the cause", err)
	}
	if err.Code != cause.Code || !err.Retryable || err.Limit != "Rate" || err.RetryAfter != time.Second {
		t.Errorf("Wrap = %+v, want the code and the limit of the cause", err)
	}
}
