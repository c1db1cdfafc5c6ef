package value

import (
	"encoding/json"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// maxText bounds the text of a value in a message, in bytes.
const maxText = 120

// Text formats a value for messages: strings in quotes, numbers as digits, everything else as extended JSON.
// It cuts long texts.
func Text(v bson.RawValue) string {
	switch v.Type {
	case 0:
		return "missing"
	case bson.TypeString:
		text, ok := v.StringValueOK()
		if len(text) > maxText {
			return strconv.Quote(strings.ToValidUTF8(text[:maxText], "")) + "…"
		}
		if ok {
			return strconv.Quote(text)
		}
	case bson.TypeInt32, bson.TypeInt64:
		if n, ok := v.AsInt64OK(); ok {
			return strconv.FormatInt(n, 10)
		}
	case bson.TypeDouble:
		if f, ok := v.DoubleOK(); ok {
			return strconv.FormatFloat(f, 'g', -1, 64)
		}
	case bson.TypeDecimal128:
		if d, ok := v.Decimal128OK(); ok {
			return d.String()
		}
	case bson.TypeObjectID:
		if id, ok := v.ObjectIDOK(); ok {
			return id.String()
		}
	}
	s := v.String()
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "") + "…"
	}
	return s
}

// JSON returns a value as relaxed extended JSON, nil for the zero value.
func JSON(v bson.RawValue) json.RawMessage {
	if v.Type == 0 {
		return nil
	}
	const before, after = `{"v":`, `}`
	out, err := bson.MarshalExtJSON(bson.D{{Key: "v", Value: v}}, false, false)
	if err != nil || len(out) < len(before)+len(after) {
		out, _ = json.Marshal(Text(v))
		return out
	}
	return out[len(before) : len(out)-len(after)]
}
