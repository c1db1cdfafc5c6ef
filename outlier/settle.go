package outlier

import (
	"context"
	"errors"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/codec"
	"github.com/mongopatterns/mongopatterns/internal/cursor"
	"github.com/mongopatterns/mongopatterns/internal/diff"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/value"
)

// settle finds out what the array of a parent is that other code has written back. If it is the whole list, settle
// deletes the numbered overflow documents; else it leaves out of the array what lies outside as well. It returns the
// array and the overflow documents that belong together, or errUnclear.
func (c *core) settle(ctx context.Context, parent state, items []bson.RawValue, extras []extent) ([]bson.RawValue, []extent, error) {
	numbered := func(x extent) bool { return x.Number.IsNumber() }
	outside := 0
	for _, x := range extras {
		if numbered(x) {
			outside += x.Size
		}
	}
	if !c.writtenBack(parent, outside) {
		return items, extras, nil
	}
	older, err := c.numbered(ctx, parent.ID)
	if err != nil {
		return nil, nil, err
	}
	whole, items, err := compare(parent, older, items)
	if err == nil && whole {
		extras = slices.DeleteFunc(extras, numbered)
		_, err = fault.Many(c.overflow.DeleteMany(ctx, c.extras(parent.ID, c.hasNumber())))
	}
	return items, extras, err
}

// writtenBack reports whether a parent shows that other code has written it back from a copy: it has lost the fields of
// an outlier, or counts what lay outside before elements moved.
func (c *core) writtenBack(parent state, outside int) bool {
	if parent.Flag { // in a set, the elements that are then there twice are known without a comparison
		return !c.o.Set && parent.Counted && parent.Outside != int64(outside)
	}
	return parent.Moved.IsZero() && outside > 0
}

// hasNumber is the condition that this package has written an overflow document.
func (c *core) hasNumber() bson.E { return expr.Element("$expr", expr.Op("$isNumber", c.number())) }

// numbered returns the elements of the overflow documents of this package, in order.
func (c *core) numbered(ctx context.Context, id bson.RawValue) (all []bson.RawValue, err error) {
	for doc, err := range cursor.Find(ctx, c.overflow, c.extras(id, c.hasNumber()),
		options.Find().SetSort(append(c.byNumber(1), expr.Element("_id", 1)))) {
		if err != nil {
			return nil, err
		}
		xs, err := decode[bson.RawValue](codec.Codec{}, doc.Lookup(c.o.ArrayField))
		if err != nil {
			return nil, err
		}
		all = append(all, xs...)
	}
	return all, nil
}

// unclear reports whether somebody must decide what the array of a parent is.
func (c *core) unclear(ctx context.Context, id bson.RawValue) (bool, error) {
	parent, err := c.read(ctx, id, 1)
	switch {
	case errors.Is(err, mongopatterns.ErrNotFound):
		return false, nil
	case errors.Is(err, mongopatterns.ErrNotAdopted):
		if !parent.Flag {
			return false, nil // the form of other code
		}
	case err != nil:
		return false, err
	}
	var older []bson.RawValue
	items, err := decode[bson.RawValue](codec.Codec{}, parent.Of)
	if err == nil {
		older, err = c.numbered(ctx, parent.ID)
	}
	switch {
	case errors.Is(err, errNotArray): // Malformed
		return false, nil
	case err != nil || !c.writtenBack(parent, len(older)):
		return false, err
	}
	_, _, err = compare(parent, older, items)
	return err != nil, nil
}

// clarify makes a problem of a list Unclear if it is.
func (c *core) clarify(ctx context.Context, p *mongopatterns.Problem) error {
	if p.Kind != WrongFlag && p.Kind != mongopatterns.WrongField && p.Kind != mongopatterns.NotAdopted {
		return nil
	}
	unclear, err := c.unclear(ctx, p.ID)
	if unclear {
		p.Kind, p.Detail = Unclear, "it was written back, or lacks elements outside, and some elements are there twice"
	}
	return err
}

// compare finds out by content what the array of a parent is that was written back.
//
//   - A copy from before the split begins with all that lies outside, and goes on. It is the whole list. Elements may
//     have been taken out or edited since, if it begins with the first one and holds the last one and more than half,
//     in their order.
//   - A copy without the flag from after the split has none of the elements outside.
//   - A copy with the flag that is older than a move begins with what has moved since, from the place that it counts.
//
// The last two return the array without what lies outside. Anything else is errUnclear. So is a list whose elements
// repeat, where they prove too little: the newest part of a list of equal elements begins with all that lies outside.
func compare(parent state, outside, items []bson.RawValue) (whole bool, rest []bson.RawValue, err error) {
	at, older := map[string]int{}, make([]string, len(outside))
	for i, x := range outside {
		older[i] = contentKey(x)
		at[older[i]] = i
	}
	once := len(at) == len(older)
	begins, ordered := len(items) > len(older), true
	var places []int // outside, of the elements of the array
	leading := 0     // how many of them the array begins with
	for i, x := range items {
		key := contentKey(x)
		begins = begins && (i >= len(older) || older[i] == key)
		place, held := at[key]
		if !held {
			continue
		}
		if leading == i {
			leading++
		}
		ordered = ordered && (len(places) == 0 || places[len(places)-1] < place)
		places = append(places, place)
	}
	n := len(places)
	switch {
	case n == 0 && (once || !parent.Flag):
		return false, items, nil
	case !parent.Flag && begins && (once && n == len(older) || !once && !repetitive(older)):
		return true, items, nil
	case n == 0 || !once || !ordered:
	case !parent.Flag && leading > 0 && places[0] == 0 && places[n-1] == len(older)-1 && 2*n > len(older) && len(items) > n:
		return true, items, nil
	case parent.Flag && leading == n && int64(places[0]) == parent.Outside && places[n-1]-places[0] == n-1:
		return false, items[n:], nil
	}
	return false, nil, errUnclear
}

// contentKey is the key of an element whose fields have another order, because a program that writes a list back may have
// read it into Go maps.
func contentKey(v bson.RawValue) string { return value.Key(diff.Canonical(v)) }

// repetitive reports whether keys are a shorter run, again and again.
func repetitive(keys []string) bool {
	for run := 1; run <= len(keys)/2; run++ {
		if len(keys)%run == 0 && slices.Equal(keys[run:], keys[:len(keys)-run]) {
			return true
		}
	}
	return false
}
