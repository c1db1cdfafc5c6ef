package slots

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/comment"
	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/fault"
	"github.com/mongopatterns/mongopatterns/internal/scoped"
	"github.com/mongopatterns/mongopatterns/internal/value"
	"github.com/mongopatterns/mongopatterns/internal/windows"
)

// Archive moves the documents whose window ended at or before the time before into target. Each batch (by
// default 100 documents, at most 8 MiB) is a transaction, so every document is in exactly one of the two
// collections at any time. It can be stopped and run again. Late data may create a new document of an
// archived window. When a later Archive moves it, its slots replace the archived ones. work.Filter selects
// documents. target is another collection of the same database; Archive creates it if it does not exist. To
// index and read it, make a second Slots with the same options, and call its EnsureIndexes before Archive.
//
// Cost: 2 round trips, and for each batch 4, commit included, and 2 writes for each document.
//   - 1 more to create target, and more for many documents, to find them.
//   - They are found by the index {series, start} with a filter on the series, by {start} if you have made it,
//     otherwise by a scan.
func (s *Slots[ID, M]) Archive(ctx context.Context, before time.Time, target *mongo.Collection, work *mongopatterns.Work) (result mongopatterns.Result, err error) {
	ctx = comment.Call(ctx, "slots.Archive")
	defer fault.In(&err, "slots.Archive")
	defer fault.PartlyDone(&err, &result.Done, &result.Unknown)
	return s.core.frame.Archive(ctx, before, scoped.On(target), work, s.core.arrive)
}

func (g *grid) arrive(_ context.Context, _ *scoped.Collection, docs []bson.Raw) (updates []mongo.WriteModel, _ error) {
	for _, doc := range docs {
		if err := g.checkNames(doc); err != nil {
			return nil, fault.Refuse(fault.Of(doc.Lookup("_id"), err))
		}
		updates = append(updates, g.bring(doc, windows.Place{Series: value.Lookup(doc, g.frame.SeriesField), Start: g.frame.StartOf(doc)}, true))
	}
	return updates, nil
}

// checkNames refuses a document with a name, of a field or of a key of slots, that means something else in the path of an
// update. Only another program stores such a document.
func (g *grid) checkNames(doc bson.Raw) error {
	if err := pathNames(doc); err != nil {
		return err
	}
	return g.checkKeys(value.Lookup(doc, g.data), len(g.levels))
}

// checkKeys is checkNames for so many levels of slots.
func (g *grid) checkKeys(slots bson.RawValue, levels int) error {
	inner, ok := slots.DocumentOK()
	if !ok || levels == 0 {
		return nil
	}
	if err := pathNames(inner); err != nil {
		return fmt.Errorf("%s: %w", g.data, err)
	}
	elements, _ := inner.Elements()
	for _, e := range elements {
		if err := g.checkKeys(e.Value(), levels-1); err != nil {
			return err
		}
	}
	return nil
}

// pathNames refuses names that a path cannot have.
func pathNames(doc bson.Raw) error {
	elements, _ := doc.Elements()
	for _, e := range elements {
		if name := e.Key(); name == "" || strings.HasPrefix(name, "$") || strings.Contains(name, ".") {
			return fmt.Errorf("%w: the name %q is empty, begins with $ or has a dot", fault.ErrMalformed, name)
		}
	}
	return nil
}

// bring is the upsert that writes a document to a place. If the place has no document, it gets all fields,
// including _id. If it has one, that gets the slots and other fields that it lacks; with later, all slots
// replace its own, but not null and other values that are no slots. The end is that of p; with later the end is treated
// like other fields.
func (g *grid) bring(doc bson.Raw, p windows.Place, later bool) mongo.WriteModel {
	var set bson.D
	put := func(path string, v any, keep bool) {
		if keep {
			v = expr.IfNull(expr.Field(path), v)
		}
		set = append(set, expr.Element(path, v))
	}
	g.walk(doc, func(slot windows.Entry, path string, timed bool) { put(path, expr.Literal(slot.Raw), !later || !timed) })
	elements, _ := doc.Elements()
	for _, e := range elements {
		if k := e.Key(); k != g.frame.SeriesField && k != g.frame.StartField && k != g.data && (k != g.frame.EndField || later) {
			put(k, expr.Literal(e.Value()), true)
		}
	}
	if g.frame.EndField != "" && !later {
		put(g.frame.EndField, g.frame.EndOf(p.End), false)
	}
	return mongo.NewUpdateOneModel().SetUpsert(true).SetFilter(g.frame.PlaceFilterNoArrays(p)).SetUpdate(mongo.Pipeline{expr.Op("$set", set)})
}
