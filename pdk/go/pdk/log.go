package pdk

import "strconv"

// withAttributes returns a message with the attributes behind it.
func withAttributes(message string, attributes []any) string {
	line := append(make([]byte, 0, len(message)+16*len(attributes)), message...)
	for i := 0; i < len(attributes); i += 2 {
		line = append(line, ' ')
		name, ok := attributes[i].(string)
		if !ok {
			name = "!NAME"
		}
		line = append(appendPlain(line, name), '=')
		if i+1 == len(attributes) {
			line = append(line, "!MISSING"...)
			break
		}
		line = appendAttribute(line, attributes[i+1])
	}
	return string(line)
}

// appendAttribute appends the value of an attribute.
func appendAttribute(line []byte, value any) []byte {
	switch v := value.(type) {
	case nil:
		return append(line, "null"...)
	case string:
		return appendPlain(line, v)
	case Raw:
		return append(line, v...)
	case error:
		return appendPlain(line, v.Error())
	case bool:
		return strconv.AppendBool(line, v)
	case int:
		return strconv.AppendInt(line, int64(v), 10)
	case int32:
		return strconv.AppendInt(line, int64(v), 10)
	case int64:
		return strconv.AppendInt(line, v, 10)
	case uint64:
		return strconv.AppendUint(line, v, 10)
	case float64:
		return strconv.AppendFloat(line, v, 'g', -1, 64)
	}
	return append(line, "!UNKNOWN"...)
}

// appendPlain appends text as it stands if a reader can tell where it ends, and quoted otherwise.
func appendPlain(line []byte, text string) []byte {
	for i := range len(text) {
		if b := text[i]; b <= ' ' || b == '"' || b == '\\' || b == '=' || b == 0x7f {
			return appendString(line, text)
		}
	}
	if text == "" {
		return append(line, `""`...)
	}
	return append(line, text...)
}
