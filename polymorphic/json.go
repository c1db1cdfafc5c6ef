package polymorphic

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns/internal/fault"
)

// MarshalJSON returns the JSON of the value with its kind in front, as in a document. A nil V
// becomes null, and a document of an unknown kind becomes relaxed extended JSON.
func (d Doc[I, S]) MarshalJSON() (text []byte, err error) {
	defer fault.In(&err, "polymorphic.MarshalJSON")
	if any(d.V) == nil {
		return []byte("null"), nil
	}
	k := kindsOf[I, S]()
	if u, ok := any(d.V).(interface{ unknown() bson.Raw }); ok && u.unknown() != nil {
		return bson.MarshalExtJSON(u.unknown(), false, false)
	}
	kind, err := k.kindOf(d.V)
	if err != nil {
		return nil, err
	}
	fields, err := json.Marshal(d.V)
	if err != nil {
		return nil, err
	}
	var names map[string]json.RawMessage
	if err := json.Unmarshal(fields, &names); err != nil {
		return nil, fault.Invalid("%T is encoded as JSON that is not an object", any(d.V))
	}
	if _, own := names[k.opts.KindField]; own {
		return nil, fault.Invalid("%T has a field %q of its own", any(d.V), k.opts.KindField)
	}
	mark, err := json.Marshal(map[string]string{k.opts.KindField: kind.name})
	if err != nil || len(names) == 0 {
		return mark, err
	}
	return append(append(mark[:len(mark)-1], ','), bytes.TrimSpace(fields)[1:]...), nil
}

// UnmarshalJSON reads the JSON of MarshalJSON, with any name of a kind. In a document of an unknown kind a whole number
// becomes an int32 or an int64, or a Decimal128 where it is larger, and a number with a point or an exponent becomes the
// nearest double, as 0.1 does in Go. For a whole number of more than 34 digits, and a number beyond the doubles such as
// 1e400 or 1e-400, it returns mongopatterns.ErrInvalid.
func (d *Doc[I, S]) UnmarshalJSON(text []byte) (err error) {
	defer fault.In(&err, "polymorphic.UnmarshalJSON")
	var none I
	d.V = none
	if string(bytes.TrimSpace(text)) == "null" {
		return nil
	}
	k := kindsOf[I, S]()
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return err
	}
	name := k.opts.Default
	if says, ok := fields[k.opts.KindField]; ok && string(says) != "null" {
		if err := json.Unmarshal(says, &name); err != nil {
			return fmt.Errorf("%s: %w", k.opts.KindField, err)
		}
	}
	kind, ok := k.byName[name]
	if !ok {
		if text, err = exact(text); err != nil {
			return err
		}
		var raw bson.Raw
		if err := bson.UnmarshalExtJSON(text, false, &raw); err != nil {
			return err
		}
		d.V, err = k.stranger(raw)
		return err
	}
	target := reflect.New(kind.typ)
	if err := json.Unmarshal(text, target.Interface()); err != nil {
		return fmt.Errorf("cannot decode the JSON into %s: %w", kind.typ, err)
	}
	d.V = target.Elem().Interface().(I)
	return nil
}

// A token is a string or a number of valid JSON.
var token = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|-?[0-9][-+.eE0-9]*`)

// exact writes the numbers of valid JSON that the driver would round to a double as decimals of extended JSON.
func exact(text []byte) (out []byte, err error) {
	out = token.ReplaceAllFunc(text, func(token []byte) []byte {
		literal := string(token)
		if token[0] == '"' {
			return token
		}
		if _, failed := strconv.ParseInt(literal, 10, 64); failed == nil {
			return token
		}
		if !strings.ContainsAny(literal, ".eE") {
			if _, failed := bson.ParseDecimal128(literal); failed != nil {
				err = fault.Invalid("the number %s does not fit into a Decimal128", literal)
			}
			return fmt.Appendf(nil, `{"$numberDecimal":%q}`, literal)
		}
		f, failed := strconv.ParseFloat(literal, 64)
		mantissa, _, _ := strings.Cut(strings.ToLower(literal), "e")
		if failed != nil || f == 0 && strings.ContainsAny(mantissa, "123456789") {
			err = fault.Invalid("the number %s does not fit into a double", literal)
		}
		return token
	})
	return out, err
}
