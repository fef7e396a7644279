// Command piimask is a history processor: it hides card numbers from models,
// which see the last four digits alone. The stored conversation keeps them.
package main

import "github.com/agenthost/agenthost/pdk/go/pdk"

func init() {
	pdk.Describe(pdk.Manifest{Name: "piimask", Version: "1.0.0", Description: "Masks card numbers before a model sees them."})
	pdk.Processor("piimask", func(p *pdk.Process) error {
		p.MapStrings(mask) // messages without a card number are not sent back
		return nil
	})
}

func main() {} // never runs: the host calls what init has registered

// mask replaces the card numbers in a text.
func mask(text string) string {
	masked, from := "", 0
	for i := range len(text) {
		if i < from || !digit(text, i) || digit(text, i-1) {
			continue // a card number begins where digits begin
		}
		if length, last4 := card(text[i:]); length > 0 {
			masked += text[from:i] + "•••• " + last4
			from = i + length
		}
	}
	return masked + text[from:]
}

// card returns how long the card number is that text begins with, or 0: 13 to 19
// digits, of which the last is the check digit of the others (the Luhn formula).
// Single spaces and dashes between them do not matter.
func card(text string) (length int, last4 string) {
	digits := make([]byte, 0, 19)
	sum, doubled := 0, 0 // of the digits so far, with every second one doubled
	for i := 0; i < len(text) && len(digits) < cap(digits); i++ {
		if !digit(text, i) {
			if (text[i] == ' ' || text[i] == '-') && digit(text, i-1) {
				continue
			}
			break
		}
		digits = append(digits, text[i])
		d := int(text[i] - '0')
		sum, doubled = doubled+d, sum+d*2%10+d/5
		if n := len(digits); n >= 13 && sum%10 == 0 && !digit(text, i+1) {
			length, last4 = i+1, string(digits[n-4:])
		}
	}
	return length, last4
}

func digit(text string, i int) bool {
	return i >= 0 && i < len(text) && '0' <= text[i] && text[i] <= '9'
}
