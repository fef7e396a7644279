//go:build wasip1

// Command go is a plugin built with Extism's Go PDK. It offers a tool to agents
// through the same contract as a native plugin: the exports of pdk/ABI.md without
// their parameter, input and output through Extism's own calls.
package main

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/extism/go-pdk"
)

const manifest = `{"abi":1,"name":"workdays","description":"Counts in working days.","tools":[{
	"name":"add_workdays",
	"description":"Adds a number of working days to a date. Saturdays and Sundays do not count.",
	"parameters":{"type":"object","properties":{
		"date":{"type":"string","description":"Where to begin, as YYYY-MM-DD."},
		"days":{"type":"integer","minimum":0,"maximum":10000,"description":"How many working days later."}},
		"required":["date","days"]}}]}`

//go:wasmexport agenthost_describe
func describe() int32 {
	pdk.OutputString(manifest)
	return 0
}

//go:wasmexport agenthost_tool
func tool() int32 {
	var call struct {
		Tool      string
		Arguments struct {
			Date string
			Days int
		}
	}
	if err := pdk.InputJSON(&call); err != nil {
		return fail("invalid_argument", err)
	}
	if call.Tool != "add_workdays" {
		return fail("not_found", errors.New("there is no tool "+call.Tool))
	}
	date, err := time.Parse(time.DateOnly, call.Arguments.Date)
	if err != nil {
		return fail("invalid_argument", errors.New("the date must be given as YYYY-MM-DD"))
	}
	due := addWorkdays(date, call.Arguments.Days)
	return answer(map[string]any{"content": map[string]string{
		"date": due.Format(time.DateOnly), "weekday": due.Weekday().String()}})
}

func addWorkdays(date time.Time, days int) time.Time {
	for days > 0 {
		date = date.AddDate(0, 0, 1)
		if day := date.Weekday(); day != time.Saturday && day != time.Sunday {
			days--
		}
	}
	return date
}

func answer(v any) int32 {
	if err := pdk.OutputJSON(v); err != nil {
		return fail("internal", err)
	}
	return 0
}

// fail answers with an error object. A plain text does as well: it is then an
// internal error.
func fail(code string, err error) int32 {
	object, _ := json.Marshal(map[string]string{"code": code, "message": err.Error()})
	pdk.SetErrorString(string(object))
	return 1
}

func main() {}
