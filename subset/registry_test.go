package subset_test

import (
	"reflect"
	"strconv"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/subset"
)

// number is stored as text with a mark.
type number int

func registry() *bson.Registry {
	r := bson.NewRegistry()
	r.RegisterTypeEncoder(reflect.TypeFor[number](), bson.ValueEncoderFunc(
		func(_ bson.EncodeContext, w bson.ValueWriter, v reflect.Value) error {
			return w.WriteString("#" + strconv.FormatInt(v.Int(), 10))
		}))
	r.RegisterTypeDecoder(reflect.TypeFor[number](), bson.ValueDecoderFunc(
		func(_ bson.DecodeContext, r bson.ValueReader, v reflect.Value) error {
			text, err := r.ReadString()
			if err == nil {
				var n int64
				n, err = strconv.ParseInt(strings.TrimPrefix(text, "#"), 10, 64)
				v.SetInt(n)
			}
			return err
		}))
	return r
}

type marked struct {
	ID     number `bson:"_id"`
	Parent number `bson:"parent"`
}

type markedPart struct {
	Part number `bson:"part"`
}

// Values are stored as the user's registry encodes them.
func TestRegistry(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t, options.Client().SetRegistry(registry()))
	s := newSubset[number, marked](t, db, &subset.Options{N: 1, Registry: registry()})
	insert(t, db.Collection("parents"), d("_id", "#1"), d("_id", "#2"))
	for i := range 3 {
		id, err := s.Add(t.Context(), 1, marked{ID: number(i)})
		must(t, err)
		same(t, "_id", any("#"+strconv.Itoa(i)), id)
	}
	must(t, s.Update(t.Context(), 1, number(0), d("$set", d("x", 1))))
	must(t, s.Replace(t.Context(), 1, marked{ID: 1}))
	must(t, s.Move(t.Context(), 1, 2, number(0)))
	must(t, s.Delete(t.Context(), 1, number(2)))
	best, err := s.Top(t.Context(), 1)
	must(t, err)
	same(t, "best", []marked{{ID: 1, Parent: 1}}, best)
	same(t, "all", []marked{{ID: 0, Parent: 2}}, collect(t, s.All(t.Context(), 2)))
	clean(t, db, s)

	split, err := subset.NewSplit[number, marked, markedPart](db.Collection("hot"), db.Collection("cold"), &subset.SplitOptions{Registry: registry()})
	must(t, err)
	must(t, split.Insert(t.Context(), 7, marked{Parent: 1}, markedPart{Part: 2}))
	hot, cold, err := split.Get(t.Context(), 7)
	must(t, err)
	same(t, "hot", marked{7, 1}, hot)
	same(t, "cold", markedPart{2}, cold)
	same(t, "stored", []bson.D{d("_id", "#7", "part", "#2")}, stored(t, db.Collection("cold")))
}
