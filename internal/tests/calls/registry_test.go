package calls_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/approx"
	"github.com/mongopatterns/mongopatterns/bucket"
	"github.com/mongopatterns/mongopatterns/computed"
	"github.com/mongopatterns/mongopatterns/extref"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/outlier"
	"github.com/mongopatterns/mongopatterns/paging"
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

// A code is stored as a number by the client of TestRegistryOfTheClient, and as text by the driver's registry.
type code string

type coded struct {
	ID    code      `bson:"_id"`
	At    time.Time `bson:"timestamp"`
	Title string    `bson:"title"`
}

// EnsureIndexes refuses a client with a registry that encodes the helper's types otherwise than the helper does.
func TestRegistryOfTheClient(t *testing.T) {
	registry := bson.NewRegistry()
	registry.RegisterTypeEncoder(reflect.TypeFor[code](), bson.ValueEncoderFunc(func(_ bson.EncodeContext, w bson.ValueWriter, v reflect.Value) error {
		return w.WriteInt32(int32(v.Len()))
	}))
	registry.RegisterTypeDecoder(reflect.TypeFor[code](), bson.ValueDecoderFunc(func(_ bson.DecodeContext, r bson.ValueReader, v reflect.Value) error {
		defer v.SetString("decoded")
		return r.Skip()
	}))
	db := mongotest.Database(t, options.Client().SetRegistry(registry))
	c, d := db.Collection("c"), db.Collection("d")
	helpers := func(r *bson.Registry) []mongopatterns.Sharder {
		return []mongopatterns.Sharder{
			testkit.Must(approx.New[code](c, &approx.Options{Every: 1, Registry: r})),
			testkit.Must(bucket.New[code, bson.D](c, hourly, &bucket.Options{Registry: r})),
			testkit.Must(bucket.New[int, coded](c, hourly, &bucket.Options{Registry: r})),
			testkit.Must(computed.New[int, code, bson.D](c, d, computed.Rule{KeyField: "film", Pipeline: perFilm, Empty: testkit.D("n", 0)}, &computed.Options{Registry: r})),
			testkit.Must(extref.New[code, bson.D](c, []extref.Target{{Collection: d, Path: "customer", Fields: []extref.Field{{Path: "name"}}}}, &extref.Options{Registry: r})),
			testkit.Must(outlier.New[code, int](c, d, &outlier.Options{Registry: r})),
			testkit.Must(outlier.New[int, code](c, d, &outlier.Options{Registry: r})),
			testkit.Must(paging.New[coded](c, testkit.D("title", 1), &paging.Options{Registry: r})),
			testkit.Must(prealloc.New[int, code](c, &prealloc.Options{Registry: r})),
			testkit.Must(relation.New[int, code, bson.D](c, d, &relation.Options{OwnerField: "owner", Registry: r})),
			testkit.Must(schemaversion.New[coded](c, nil, &schemaversion.Options{Registry: r})),
			testkit.Must(series.New[code, bson.D](c, hourly, &series.Options{Registry: r})),
			testkit.Must(slots.New[code, int](c, timeseries.Days(nil), &slots.Options{Registry: r})),
			testkit.Must(split.New[code, bson.D, bson.D](c, d, &split.Options{ColdFields: []string{"cold"}, Registry: r})),
			testkit.Must(subset.New[int, coded](c, d, &subset.Options{Registry: r})),
			testkit.Must(tree.New[code, bson.D](c, tree.ParentReferences, &tree.Options{Registry: r})),
			testkit.Must(versioning.New[int, coded](c, d, &versioning.Options{Registry: r})),
		}
	}
	for _, h := range helpers(nil) {
		if err := h.EnsureIndexes(t.Context()); !strings.Contains(fmt.Sprint(err), "set Options.Registry") {
			t.Errorf("%T: %v", h, err)
		}
	}
	if got := testkit.Value[[]string](t)(db.ListCollectionNames(t.Context(), bson.D{})); len(got) > 0 {
		t.Errorf("created %v", got)
	}
	for _, h := range helpers(registry) {
		testkit.OK(t, c.Drop(t.Context()))
		testkit.OK(t, h.EnsureIndexes(t.Context()))
	}
}
