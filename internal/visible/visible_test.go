package visible

import "testing"

func TestVisible(t *testing.T) {
	for text, want := range map[string][2]string{
		"größe <b>`|":      {"größe <b>`|", "größe <b>`|"},
		"a\nb":             {`"a\nb"`, "a\nb"},
		"a\x1b[31m\u202eb": {`"a\x1b[31m\u202eb"`, `a\x1b[31m\u202eb`},
		"a\x7f\r\u0085b":   {`"a\x7f\r\u0085b"`, `a\x7f\r\u0085b`},
		"a\u200bb":         {`"a\u200bb"`, `a\u200bb`},
	} {
		if name, whole := Name(text), Text(text); name != want[0] || whole != want[1] {
			t.Errorf("%q: %s and %s, want %s", text, name, whole, want)
		}
	}
}
