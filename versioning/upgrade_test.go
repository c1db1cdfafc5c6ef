package versioning_test

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/polymorphic"
	"github.com/mongopatterns/mongopatterns/schemaversion"
	"github.com/mongopatterns/mongopatterns/versioning"
)

// contact reads documents of three versions, and writes the newest.
type contact struct {
	ID      string
	Name    string
	Methods []string
}

func (c *contact) UnmarshalBSON(data []byte) error {
	raw := bson.Raw(data)
	c.ID, _ = raw.Lookup("_id").StringValueOK()
	c.Name, _ = raw.Lookup("name").StringValueOK()
	c.Methods = nil
	version, _ := raw.Lookup("schema_version").Int32OK()
	if version == 2 {
		return raw.Lookup("contact_method").Unmarshal(&c.Methods)
	}
	for _, key := range []string{"home", "work"} { // each is a field of its own before
		if v, ok := raw.Lookup(key).StringValueOK(); ok {
			c.Methods = append(c.Methods, v)
		}
	}
	return nil
}

func (c contact) MarshalBSON() ([]byte, error) {
	return bson.Marshal(bson.D{{Key: "_id", Value: c.ID}, {Key: "schema_version", Value: int32(2)}, {Key: "name", Value: c.Name}, {Key: "contact_method", Value: append([]string{}, c.Methods...)}})
}

// mender does without a version: it reads the old field too, if it is there.
type mender struct {
	ID   string
	Tags []string
}

func (m *mender) UnmarshalBSON(data []byte) error {
	var doc struct {
		ID   string   `bson:"_id"`
		Tag  string   `bson:"tag"`
		Tags []string `bson:"tags"`
	}
	err := bson.Unmarshal(data, &doc)
	m.ID, m.Tags = doc.ID, doc.Tags
	if doc.Tag != "" {
		m.Tags = append(m.Tags, doc.Tag)
	}
	return err
}

func (m mender) MarshalBSON() ([]byte, error) {
	return bson.Marshal(bson.D{{Key: "_id", Value: m.ID}, {Key: "tags", Value: append([]string{}, m.Tags...)}})
}

// A T makes new fields from old ones when it decodes. A save stores the caller's document: nothing
// twice, nothing lost. Fields that T does not show stay, unless T reads them: mender does, so its
// document is stored as mender encodes it.
func TestUpgradingTypes(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := mongotest.Database(t)
	if _, err := db.Collection("current").InsertMany(ctx, []any{
		bson.D{{Key: "_id", Value: "a"}, {Key: "name", Value: "Anakin"}, {Key: "home", Value: "0000"}, {Key: "work", Value: "0010"}, {Key: "rank", Value: "knight"}},
		bson.D{{Key: "_id", Value: "m"}, {Key: "tags", Value: bson.A{"x"}}, {Key: "tag", Value: "y"}, {Key: "other", Value: bson.D{{Key: "n", Value: 1}}}},
	}); err != nil {
		t.Fatal(err)
	}
	contacts := helper[string, contact](t, db, nil)
	for i, step := range []struct {
		change func(c *contact) error
		number int64
	}{
		{func(c *contact) error { return nil }, 1},
		{func(c *contact) error { c.Name = "Vader"; return nil }, 2},
		{func(c *contact) error { c.Methods = append(c.Methods, "0020"); return nil }, 3},
		{func(c *contact) error { c.Methods = c.Methods[1:]; return nil }, 4},
		{func(c *contact) error { c.Name = "Anakin"; return nil }, 5},
	} {
		before := must[versioning.Revision[contact]](t)(contacts.Get(ctx, "a"))
		if err := step.change(&before.Document); err != nil {
			t.Fatal(err)
		}
		saved := must[versioning.Revision[contact]](t)(contacts.Save(ctx, before, nobody))
		if diff := cmp.Diff(before.Document, must[versioning.Revision[contact]](t)(contacts.Get(ctx, "a")).Document); diff != "" || saved.Number != step.number {
			t.Errorf("step %d, revision %d (-want +got):\n%s", i, saved.Number, diff)
		}
	}
	menders := helper[string, mender](t, db, nil)
	for _, want := range [][]string{{"x", "y", "z"}, {"x", "z"}, {}} {
		must[versioning.Revision[mender]](t)(menders.Edit(ctx, "m", func(m *mender) error { m.Tags = want; return nil }, nobody))
		if got := must[versioning.Revision[mender]](t)(menders.Get(ctx, "m")).Document.Tags; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	stored := all(t, db.Collection("current"), bson.D{{Key: "_id", Value: 1}})
	if testkit.Get(stored[0], "rank") != "knight" || testkit.Get(stored[1], "other") != nil || testkit.Get(stored[1], "tag") != nil {
		t.Errorf("stored %v", stored)
	}
	if first := must[versioning.Revision[contact]](t)(contacts.At(ctx, "a", 1)); !slices.Equal(first.Document.Methods, []string{"0000", "0010"}) {
		t.Errorf("%+v", first)
	}
}

// A phone makes two fields out of an old one, unless it finds the first of them.
type phone struct {
	Version int    `bson:"version"`
	Area    string `bson:"area"`
	Number  string `bson:"number"`
}

func (p *phone) UnmarshalBSON(raw []byte) error {
	type plain phone
	if err := bson.Unmarshal(raw, (*plain)(p)); err != nil || p.Version > 0 {
		return err
	}
	p.Version = 2
	p.Area, p.Number, _ = strings.Cut(bson.Raw(raw).Lookup("phone").StringValue(), "-")
	return nil
}

// A nested value that upgrades itself keeps the fields that T lacks, when one of those that
// it makes up is changed.
func TestUpgradingInside(t *testing.T) {
	t.Parallel()
	db := mongotest.Database(t)
	type owner struct {
		ID    string `bson:"_id"`
		Phone phone  `bson:"phone"`
	}
	if _, err := db.Collection("current").InsertOne(t.Context(), bson.D{{Key: "_id", Value: "a"},
		{Key: "phone", Value: bson.D{{Key: "phone", Value: "503-555"}, {Key: "carrier", Value: "Acme"}}}}); err != nil {
		t.Fatal(err)
	}
	owners := helper[string, owner](t, db, nil)
	must[versioning.Revision[owner]](t)(owners.Edit(t.Context(), "a", func(o *owner) error { o.Phone.Version = 3; return nil }, nobody))
	if got := must[versioning.Revision[owner]](t)(owners.Get(t.Context(), "a")).Document.Phone; got != (phone{3, "503", "555"}) {
		t.Errorf("%+v", got)
	}
	inner, _ := testkit.Get(all(t, db.Collection("current"), bson.D{{Key: "_id", Value: 1}})[0], "phone").(bson.D)
	if testkit.Get(inner, "carrier") != "Acme" {
		t.Errorf("stored %v", inner)
	}
}

type inside struct {
	X int `bson:"x"`
}

type oldest struct {
	A  int    `bson:"a"`
	In inside `bson:"in"`
}

type newest struct {
	B  int    `bson:"b"`
	In inside `bson:"in"`
}

type steps struct{}

var chain = schemaversion.Must(schemaversion.NewChain([]schemaversion.Step{
	schemaversion.Between(func(v oldest) (newest, error) { return newest{v.A, v.In}, nil }, nil),
}, nil))

func (steps) Chain() *schemaversion.Chain { return chain }

// lenient is a step on documents that renames a, unless there is a b already.
type lenient struct{}

var lenientChain = schemaversion.Must(schemaversion.NewChain([]schemaversion.Step{{Up: func(d bson.D) (bson.D, error) {
	if testkit.Get(d, "b") == nil {
		d = append(d, bson.E{Key: "b", Value: testkit.Get(d, "a")})
	}
	return without(d, "a"), nil
}}}, nil))

func (lenient) Chain() *schemaversion.Chain { return lenientChain }

// A document that a save upgrades is upgraded as a whole: it has the new version, fields that the
// step removed are missing, and fields that T does not have are kept, at any depth.
func TestUpgradeIsWhole(t *testing.T) {
	t.Parallel()
	t.Run("between structs", testUpgrade[steps])
	t.Run("on documents", testUpgrade[lenient])
}

func testUpgrade[S schemaversion.Set](t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	type T = schemaversion.Doc[newest, S]
	for name, test := range map[string]struct {
		change func(v *T)
		want   bson.D
	}{
		"what the step has made": {func(v *T) { v.V.B = 7 }, doc("c", 2, "in", doc("y", 2, "x", 1), "b", 7, "schema_version", 2)},
		"another field":          {func(v *T) { v.V.In.X = 5 }, doc("c", 2, "in", doc("y", 2, "x", 5), "b", 1, "schema_version", 2)},
		"nothing":                {func(*T) {}, doc("a", 1, "c", 2, "in", doc("y", 2, "x", 1))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := mongotest.Database(t)
			d := helper[string, T](t, db, nil)
			testkit.Insert(t, db.Collection("current"), doc("_id", "a", "a", 1, "c", 2, "in", doc("y", 2, "x", 1)))
			r := must[versioning.Revision[T]](t)(d.Edit(ctx, "a", func(v *T) error { test.change(v); return nil }, nobody))
			stored := all(t, db.Collection("current"), bson.D{})[0]
			if diff := cmp.Diff(fields(t, test.want), fields(t, without(stored, "_id", "revision", "change"))); diff != "" {
				t.Errorf("stored (-want +got):\n%s", diff)
			}
			if now := must[versioning.Revision[T]](t)(d.Get(ctx, "a")); now.Document.V != r.Document.V {
				t.Errorf("get %+v, update %+v", now, r)
			}
			if first := must[versioning.Revision[T]](t)(d.At(ctx, "a", 1)); first.Document.V != (newest{1, inside{1}}) {
				t.Errorf("revision 1: %+v", first)
			}
		})
	}
}

// A known is what a Doc made by hand has.
type known struct {
	ID string `bson:"_id"`
	B  int    `bson:"b"`
	In inside `bson:"in"`
}

// A Doc that was made by hand, or read from another document, changes what its V shows, as a struct
// does: the fields that V does not have stay as they are stored, at any depth.
func TestDocByHand(t *testing.T) {
	t.Parallel()
	t.Run("between structs", testByHand[steps])
	t.Run("on documents", testByHand[lenient])
}

func testByHand[S schemaversion.Set](t *testing.T) {
	t.Parallel()
	type T = schemaversion.Doc[known, S]
	type P = *T
	ctx := t.Context()
	body := known{"a", 7, inside{3}}
	var other T // was read from a document with other values in the fields that V does not have
	testkit.OK(t, bson.Unmarshal(testkit.Raw(t, doc("_id", "a", "b", 1, "schema_version", 2, "c", 9, "seen", 9, "other", 9)), &other))
	other.V = body
	stored := map[string]bson.D{
		"version 1": doc("_id", "a", "a", 1, "c", 2, "in", doc("y", 2, "x", 1), "seen", 5),
		"version 2": doc("_id", "a", "b", 1, "c", 2, "in", doc("y", 2, "x", 1), "seen", 5, "schema_version", 2),
	}
	db := mongotest.Database(t)
	for version, before := range stored {
		for name, save := range map[string]func(d *versioning.History[string, T], p *versioning.History[string, P]) error{
			"Save": func(d *versioning.History[string, T], _ *versioning.History[string, P]) error {
				_, err := d.Save(ctx, versioning.Revision[T]{Number: 1, Document: T{V: body}}, nobody)
				return err
			},
			"Save of what was read elsewhere": func(d *versioning.History[string, T], _ *versioning.History[string, P]) error {
				_, err := d.Save(ctx, versioning.Revision[T]{Number: 1, Document: other}, nobody)
				return err
			},
			"Save after Get": func(d *versioning.History[string, T], _ *versioning.History[string, P]) error {
				r := must[versioning.Revision[T]](t)(d.Get(ctx, "a"))
				r.Document = T{V: body}
				_, err := d.Save(ctx, r, nobody)
				return err
			},
			"Save after At": func(d *versioning.History[string, T], _ *versioning.History[string, P]) error {
				r := must[versioning.Revision[T]](t)(d.At(ctx, "a", 1))
				r.Document = T{V: body}
				_, err := d.Save(ctx, r, nobody)
				return err
			},
			"SaveMany": func(d *versioning.History[string, T], _ *versioning.History[string, P]) error {
				return saveOne(ctx, d, versioning.Revision[T]{Number: 1, Document: T{V: body}})
			},
			"Edit": func(d *versioning.History[string, T], _ *versioning.History[string, P]) error {
				_, err := d.Edit(ctx, "a", func(v *T) error { *v = T{V: body}; return nil }, nobody)
				return err
			},
			"a pointer": func(_ *versioning.History[string, T], p *versioning.History[string, P]) error {
				_, err := p.Save(ctx, versioning.Revision[P]{Number: 1, Document: &T{V: body}}, nobody)
				return err
			},
			"Edit of a pointer": func(_ *versioning.History[string, T], p *versioning.History[string, P]) error {
				_, err := p.Edit(ctx, "a", func(v *P) error { *v = &T{V: body}; return nil }, nobody)
				return err
			},
		} {
			t.Run(version+", "+name, func(t *testing.T) {
				testkit.Empty(t, db)
				opts := &versioning.Options{Ignored: []string{"seen"}}
				d := helper[string, T](t, db, opts)
				testkit.Insert(t, db.Collection("current"), before)
				testkit.OK(t, save(d, helper[string, P](t, db, opts)))
				got := all(t, db.Collection("current"), bson.D{})[0]
				want := doc("b", 7, "c", 2, "in", doc("y", 2, "x", 3), "seen", 5, "schema_version", 2)
				if diff := cmp.Diff(fields(t, want), fields(t, without(got, "_id", "revision", "change"))); diff != "" {
					t.Errorf("stored (-want +got):\n%s", diff)
				}
				if testkit.Get(got, "revision") != int64(2) {
					t.Errorf("revision %v", testkit.Get(got, "revision"))
				}
				// Nothing new: no revision.
				if same := must[versioning.Revision[T]](t)(d.Save(ctx, versioning.Revision[T]{Number: 2, Document: T{V: body}}, nobody)); same.Number != 2 {
					t.Errorf("unchanged: %+v", same)
				}
				testkit.Healthy(t, d)
			})
		}
	}
	t.Run("refused", func(t *testing.T) {
		testkit.Empty(t, db)
		d, p := helper[string, T](t, db, nil), helper[string, P](t, db, nil)
		testkit.Insert(t, db.Collection("current"), doc("_id", "a", "b", 1, "schema_version", 9))
		_, err := d.Save(ctx, versioning.Revision[T]{Number: 1, Document: T{V: body}}, nobody)
		wantErr(t, "of a newer version", err, mongopatterns.ErrNewer)
		wantErr(t, "many of a newer version", saveOne(ctx, d, versioning.Revision[T]{Number: 1, Document: T{V: body}}), mongopatterns.ErrNewer)
		_, err = p.Save(ctx, versioning.Revision[P]{Number: 1}, nobody)
		wantErr(t, "nil", err, mongopatterns.ErrInvalid)
	})
}

// fields are those of a document by their names, as text: their order does not count.
func fields(t *testing.T, d bson.D) map[string]string {
	out := map[string]string{}
	for _, e := range d {
		out[e.Key] = testkit.Raw(t, bson.D{{Key: "v", Value: e.Value}}).Lookup("v").String()
	}
	return out
}

func without(d bson.D, keys ...string) bson.D {
	return slices.DeleteFunc(slices.Clone(d), func(e bson.E) bool { return slices.Contains(keys, e.Key) })
}

type player interface{ Average() int }

type bowler struct {
	ID   string `bson:"_id"`
	Pins int    `bson:"pins"`
}

func (b bowler) Average() int { return b.Pins }

type sports struct{}

var kinds = polymorphic.Must(polymorphic.New([]polymorphic.Kind{polymorphic.Of[bowler]("bowling")},
	&polymorphic.Options[player]{KindField: "sport", Default: "bowling"}))

func (sports) Kinds() *polymorphic.Kinds[player] { return kinds }

// A T that shows a field which is not stored, and drops fields it does not have, does not lose
// those.
func TestMadeUpFieldBesideUnknownOnes(t *testing.T) {
	t.Parallel()
	type T = polymorphic.Doc[player, sports]
	db := mongotest.Database(t)
	d := helper[string, T](t, db, nil)
	testkit.Insert(t, db.Collection("current"), doc("_id", "a", "pins", 219, "hall", doc("since", 1970)))
	must[versioning.Revision[T]](t)(d.Edit(t.Context(), "a", func(v *T) error { v.V = bowler{"a", 220}; return nil }, nobody))
	stored := all(t, db.Collection("current"), bson.D{})[0]
	want := doc("pins", 220, "hall", doc("since", 1970), "sport", "bowling")
	if diff := cmp.Diff(fields(t, want), fields(t, without(stored, "_id", "revision", "change"))); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
}

// A uuid is kept as a text in capitals or in small letters, and written in small ones.
type uuid [2]byte

func (u uuid) MarshalBSONValue() (byte, []byte, error) {
	kind, data, err := bson.MarshalValue(fmt.Sprintf("%x", u[:]))
	return byte(kind), data, err
}

func (u *uuid) UnmarshalBSONValue(kind byte, data []byte) error {
	var text string
	if err := bson.UnmarshalValue(bson.Type(kind), data, &text); err != nil {
		return err
	}
	raw, err := hex.DecodeString(text)
	copy(u[:], raw)
	return err
}

// A T with a codec of its own for a field keeps fields that it does not have, at any depth, and
// values that it shows otherwise than they are stored; so does a T with a Registry.
func TestCodecOfAField(t *testing.T) {
	t.Parallel()
	type part struct {
		Key   uuid `bson:"key"`
		Count int  `bson:"count"`
	}
	type thing struct {
		ID    string `bson:"_id"`
		Key   uuid   `bson:"key"`
		Parts []part `bson:"parts"`
		In    part   `bson:"in"`
		New   int    `bson:"new"`
		Other uuid   `bson:"other"`
	}
	for name, registry := range map[string]*bson.Registry{"methods": nil, "registry": bson.NewRegistry()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			db := mongotest.Database(t)
			d := helper[string, thing](t, db, &versioning.Options{Registry: registry})
			element := func(key string, count, price int) bson.D {
				return doc("price", price, "key", key, "count", count)
			}
			testkit.Insert(t, db.Collection("current"), doc("_id", "a", "key", "AB01", "parts", bson.A{element("AB02", 1, 10), element("ab03", 1, 20)},
				"in", doc("deep", doc("z", 1), "key", "AB04"), "unknown", 5))
			update := func(want int64, change func(v *thing)) {
				t.Helper()
				r := must[versioning.Revision[thing]](t)(d.Edit(ctx, "a", func(v *thing) error { change(v); return nil }, nobody))
				if r.Number != want {
					t.Errorf("revision %d, want %d", r.Number, want)
				}
			}
			update(1, func(*thing) {})
			update(2, func(v *thing) { v.Parts[1].Count = 7 })
			update(3, func(v *thing) { v.In.Count, v.Parts = 3, v.Parts[1:] })
			stored := all(t, db.Collection("current"), bson.D{})[0]
			want := doc("key", "AB01", "parts", bson.A{element("ab03", 7, 20)},
				"in", doc("deep", doc("z", 1), "key", "AB04", "count", 3), "unknown", 5)
			got := fields(t, without(stored, "_id", "revision", "change", "other"))
			if diff := cmp.Diff(fields(t, want), got); diff != "" {
				t.Errorf("stored (-want +got):\n%s", diff)
			}
		})
	}
}
