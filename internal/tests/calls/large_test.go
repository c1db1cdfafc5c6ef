package calls_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/attribute"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/internal/tests/scale"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/outlier"
	"github.com/mongopatterns/mongopatterns/prealloc"
	"github.com/mongopatterns/mongopatterns/relation"
	"github.com/mongopatterns/mongopatterns/schemaversion"
	"github.com/mongopatterns/mongopatterns/series"
	"github.com/mongopatterns/mongopatterns/slots"
	"github.com/mongopatterns/mongopatterns/split"
	"github.com/mongopatterns/mongopatterns/subset"
	"github.com/mongopatterns/mongopatterns/timeseries"
	"github.com/mongopatterns/mongopatterns/tree"
	"github.com/mongopatterns/mongopatterns/versioning"
)

// A writing is a call that stores v in a document of the collection "c" or "d".
type writing func(ctx context.Context, c, d *mongo.Collection, v any) error

var writings = map[string]writing{
	"attribute.Set": func(ctx context.Context, c, _ *mongo.Collection, v any) error {
		return testkit.Must(attribute.New[int, any](c, nil)).Set(ctx, 1, attribute.Named("k"), v)
	},
	"attribute.Add": func(ctx context.Context, c, _ *mongo.Collection, v any) error {
		return testkit.Must(attribute.New[int, any](c, nil)).Add(ctx, 1, attribute.Named("k"), v)
	},
	"attribute.SetAll": func(ctx context.Context, c, _ *mongo.Collection, v any) error {
		return testkit.Must(attribute.New[int, any](c, nil)).SetAll(ctx, 1, attribute.Attribute[any]{Key: "k", Value: v})
	},
	"bucket.Append": func(ctx context.Context, c, _ *mongo.Collection, v any) error {
		return testkit.ErrorOf(testkit.Must(bucket.New[int, bson.D](c, hourly, nil)).Append(ctx, 1, testkit.D("timestamp", moment, "v", v)))
	},
	"series.Append": func(ctx context.Context, c, _ *mongo.Collection, v any) error {
		return testkit.Must(series.New[int, bson.D](c, hourly, nil)).Append(ctx, 1, testkit.D("timestamp", moment, "v", v))
	},
	"slots.Set": func(ctx context.Context, c, _ *mongo.Collection, v any) error {
		return testkit.Must(slots.New[int, bson.D](c, timeseries.Days(nil), nil)).Set(ctx, 1, moment, testkit.D("v", v))
	},
	"slots.SetMany": func(ctx context.Context, c, _ *mongo.Collection, v any) error {
		s := testkit.Must(slots.New[int, bson.D](c, timeseries.Days(nil), nil))
		return testkit.ErrorOf(s.SetMany(ctx, timeseries.Of(1, slots.Slot[bson.D]{Time: moment, Value: testkit.D("v", v)}), nil))
	},
	"extref.Update": func(ctx context.Context, c, d *mongo.Collection, v any) error {
		targets := []extref.Target{{Collection: d, Path: "customer", Fields: []extref.Field{{Path: "name"}}}}
		return testkit.ErrorOf(testkit.Must(extref.New[int, bson.D](c, targets, nil)).Update(ctx, 1, testkit.D("$set", testkit.D("other", v))))
	},
	"extref.Update, followed": func(ctx context.Context, c, d *mongo.Collection, v any) error {
		targets := []extref.Target{{Collection: d, Path: "customer", Fields: []extref.Field{{Path: "name"}}}}
		return testkit.ErrorOf(testkit.Must(extref.New[int, bson.D](c, targets, nil)).Update(ctx, 1, testkit.D("$set", testkit.D("name", v))))
	},
	"outlier.Add": func(ctx context.Context, c, d *mongo.Collection, v any) error {
		return testkit.ErrorOf(testkit.Must(outlier.New[int, any](c, d, nil)).Add(ctx, 1, v))
	},
	"outlier.Add, set": func(ctx context.Context, c, d *mongo.Collection, v any) error {
		return testkit.ErrorOf(testkit.Must(outlier.New[int, any](c, d, &outlier.Options{Set: true})).Add(ctx, 1, v))
	},
	"prealloc.Insert": func(ctx context.Context, c, _ *mongo.Collection, v any) error {
		return testkit.Must(prealloc.New[int, any](c, nil)).Insert(ctx, 2, testkit.D("v", v), prealloc.At("A", "1"))
	},
	"prealloc.Claim": func(ctx context.Context, c, _ *mongo.Collection, v any) error {
		g := testkit.Must(prealloc.New[int, any](c, nil))
		return g.Claim(ctx, 1, v, prealloc.At("A", "1"))
	},
	"relation.Insert": func(ctx context.Context, c, d *mongo.Collection, v any) error {
		r := testkit.Must(relation.New[int, int, bson.D](c, d, &relation.Options{OwnerField: "owner"}))
		return testkit.ErrorOf(r.Insert(ctx, 1, testkit.D("_id", 2, "v", v)))
	},
	"schemaversion.Insert": func(ctx context.Context, c, _ *mongo.Collection, v any) error {
		return testkit.ErrorOf(testkit.Must(schemaversion.New[bson.D](c, nil, nil)).Insert(ctx, testkit.D("_id", 2, "v", v)))
	},
	"schemaversion.Update": func(ctx context.Context, c, _ *mongo.Collection, v any) error {
		return testkit.Must(schemaversion.New[bson.D](c, nil, nil)).Update(ctx, 1, testkit.D("$set", testkit.D("v", v)))
	},
	"split.Insert": func(ctx context.Context, c, d *mongo.Collection, v any) error {
		return testkit.Must(split.New[int, bson.D, bson.D](c, d, &split.Options{ColdFields: []string{"cv"}})).Insert(ctx, 2, bson.D{}, testkit.D("cv", v))
	},
	"split.Insert, hot": func(ctx context.Context, c, d *mongo.Collection, v any) error {
		return testkit.Must(split.New[int, bson.D, bson.D](c, d, &split.Options{ColdFields: []string{"cv"}})).Insert(ctx, 2, testkit.D("v", v), bson.D{})
	},
	"split.Update": func(ctx context.Context, c, d *mongo.Collection, v any) error {
		return testkit.Must(split.New[int, bson.D, bson.D](d, c, &split.Options{ColdFields: []string{"cv", "pad"}})).Update(ctx, 1, nil, testkit.D("$set", testkit.D("cv", v)))
	},
	"split.Update, hot": func(ctx context.Context, c, d *mongo.Collection, v any) error {
		return testkit.Must(split.New[int, bson.D, bson.D](c, d, &split.Options{ColdFields: []string{"cv"}})).Update(ctx, 1, testkit.D("$set", testkit.D("v", v)), nil)
	},
	"subset.Insert": func(ctx context.Context, c, d *mongo.Collection, v any) error {
		return testkit.ErrorOf(testkit.Must(subset.New[int, bson.D](c, d, nil)).Insert(ctx, 1, testkit.D("_id", 2, "v", v)))
	},
	"subset.Update": func(ctx context.Context, c, d *mongo.Collection, v any) error {
		s := testkit.Must(subset.New[int, bson.D](c, d, nil))
		return s.Update(ctx, 1, 1, testkit.D("$set", testkit.D("v", v)))
	},
	"tree.Insert": func(ctx context.Context, c, _ *mongo.Collection, v any) error {
		tr := testkit.Must(tree.New[int, bson.D](c, tree.AncestorArray, nil))
		return testkit.ErrorOf(tr.Insert(ctx, testkit.D("_id", 2, "v", v), tr.AsRoot()))
	},
	"tree.Insert, child": func(ctx context.Context, c, _ *mongo.Collection, v any) error {
		tr := testkit.Must(tree.New[int, bson.D](c, tree.AncestorArray, nil))
		return testkit.ErrorOf(tr.Insert(ctx, testkit.D("_id", 2, "v", v), tr.Under(1)))
	},
	"versioning.Insert": func(ctx context.Context, c, d *mongo.Collection, v any) error {
		return testkit.ErrorOf(testkit.Must(versioning.New[int, bson.D](c, d, nil)).Insert(ctx, testkit.D("_id", 2, "v", v), versioning.Change{}))
	},
	"versioning.Save": func(ctx context.Context, c, d *mongo.Collection, v any) error {
		h := testkit.Must(versioning.New[int, bson.D](c, d, nil))
		return testkit.ErrorOf(h.Edit(ctx, 1, func(doc *bson.D) error { *doc = append(*doc, bson.E{Key: "v", Value: v}); return nil }, versioning.Change{}))
	},
	"versioning.Save, without a history": func(ctx context.Context, c, _ *mongo.Collection, v any) error {
		h := testkit.Must(versioning.New[int, bson.D](c, nil, &versioning.Options{NoHistory: true}))
		return testkit.ErrorOf(h.Edit(ctx, 1, func(doc *bson.D) error { *doc = append(*doc, bson.E{Key: "v", Value: v}); return nil }, versioning.Change{}))
	},
}

func nest(levels int) (v any) {
	v = 1
	for range levels {
		v = bson.A{v}
	}
	return v
}

// A document that would be larger than 16 MiB, or have more than 180 levels, is ErrInvalid and says so, whether the
// package, the driver or the server refuses it. The text names the document that the server refuses. Nothing is written.
func TestTooLargeADocument(t *testing.T) {
	for shape, test := range map[string]struct {
		pad   int // bytes that the document has already
		v     any
		says  []string
		large int // from where on every eighth call, in a small run; 0: each
	}{
		"grown":          {12 << 20, strings.Repeat("x", 5<<20), []string{"16 MiB", "bytes"}, 1},
		"of 16 MiB":      {0, strings.Repeat("x", 16<<20), []string{"16 MiB", "bytes"}, 5},
		"of many levels": {0, nest(180), []string{"levels of documents and arrays", "holder: "}, 0},
	} {
		for i, name := range slices.Sorted(maps.Keys(writings)) {
			call := writings[name]
			if test.large > 0 && !scale.Turn(i+test.large, 8) {
				continue
			}
			t.Run(shape+"/"+name, func(t *testing.T) {
				ctx, db := t.Context(), mongotest.Database(t)
				c, d := db.Collection("c"), db.Collection("d")
				testkit.Insert(t, c, testkit.D("_id", 1, "pad", strings.Repeat("x", test.pad), "ancestors", bson.A{}, "cells", testkit.D("A", testkit.D("1", nil))))
				testkit.Insert(t, d, testkit.D("_id", 1, "parent", 1))
				stored := func() int { return testkit.Count(t, c, bson.D{}) + testkit.Count(t, d, bson.D{}) }
				before := stored()
				err := call(ctx, c, d, test.v)
				if err == nil && shape == "grown" { // another document
					return
				}
				if errors.Is(err, mongopatterns.ErrNotFound) && name == "prealloc.Claim" && shape == "grown" {
					return
				}
				plain := func(s string) bool { return strings.Contains(fmt.Sprint(err), s) }
				if !errors.Is(err, mongopatterns.ErrInvalid) || mongopatterns.OutcomeOf(err) != mongopatterns.NotDone || !slices.ContainsFunc(test.says, plain) {
					t.Errorf("%v: %.300v", mongopatterns.OutcomeOf(err), err)
				}
				named := plain("_id 1: invalid: ") || plain("_id 2: invalid: ") || plain(`_id {"series":`)
				if server := mongo.ServerError(nil); errors.As(err, &server) && !named {
					t.Errorf("it names no document: %.300v", err)
				}
				if after := stored(); after != before {
					t.Errorf("%d documents, before %d", after, before)
				}
			})
		}
	}
}
