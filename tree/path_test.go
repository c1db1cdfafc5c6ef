package tree_test

import (
	"errors"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongopatterns/mongopatterns"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
	"github.com/mongopatterns/mongopatterns/tree"
)

// page is a node of a site, with an ObjectID and a readable path.
type page struct {
	ID   bson.ObjectID `bson:"_id,omitempty"`
	Slug string        `bson:"slug"`
	Path string        `bson:"path,omitempty"`
}

type site struct {
	*tree.Tree[bson.ObjectID, page]
	coll *mongo.Collection
	ids  map[string]bson.ObjectID // by the path and slug at first
}

// openSite makes /books/programming/databases, /books/films and /music.
func openSite(t *testing.T) site {
	coll := mongotest.Database(t).Collection("nodes")
	opts := &tree.Options{SegmentField: "slug", PathDelimiter: "/", MakeRoots: true}
	s := site{get(tree.New[bson.ObjectID, page](coll, tree.MaterializedPath, opts))(t), coll, map[string]bson.ObjectID{}}
	ok(t, s.EnsureIndexes(t.Context()))
	for _, at := range []string{"/books", "/books/programming", "/books/programming/databases", "/books/films", "/music"} {
		s.add(t, at)
	}
	return s
}

func (s site) add(t *testing.T, at string) {
	t.Helper()
	end := len(at)
	for at[end-1] != '/' {
		end--
	}
	pos := s.AsRoot()
	if end > 1 {
		pos = s.Under(s.ids[at[:end-1]])
	}
	s.ids[at] = get(s.Insert(t.Context(), page{Slug: at[end:]}, pos))(t)
}

// want compares the paths of all pages, and fails for a problem.
func (s site) want(t *testing.T, what string, want ...string) {
	t.Helper()
	cur := get(s.coll.Find(t.Context(), bson.D{}))(t)
	var pages []page
	ok(t, cur.All(t.Context(), &pages))
	var got []string
	for _, p := range pages {
		got = append(got, p.Path+p.Slug)
	}
	match(t, what, want, sorted(got))
	for p, err := range s.Check(t.Context(), nil) {
		t.Errorf("%s: %v, %v", what, p, err)
	}
}

// TestSegmentField: nodes have ObjectIDs, and their paths the names that URLs have.
func TestSegmentField(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := openSite(t)
	s.want(t, "inserted", "/books", "/books/films", "/books/programming", "/books/programming/databases", "/music")
	var p page
	ok(t, s.coll.FindOne(ctx, bson.D{{Key: "path", Value: "/books/programming/"}, {Key: "slug", Value: "databases"}}).Decode(&p))
	wrong(t, p.ID != s.ids["/books/programming/databases"], "by its URL: %v", p)
	id := get(s.FindOrInsert(ctx, []string{"books", "programming", "databases"}, nil))(t)
	wrong(t, id != p.ID, "FindOrInsert: %v", id)
	id = get(s.FindOrInsert(ctx, []string{"music", "jazz", "bebop"}, func(name string) (page, error) { return page{Slug: name}, nil }))(t)
	var names []string
	for _, c := range get(s.Breadcrumb(ctx, id))(t) {
		names = append(names, c.Name)
	}
	match(t, "breadcrumb", []string{"music", "jazz", "bebop"}, names)

	ok(t, s.Move(ctx, s.ids["/books/programming"], s.Under(s.ids["/music"])))
	s.want(t, "moved", "/books", "/books/films", "/music", "/music/jazz", "/music/jazz/bebop", "/music/programming", "/music/programming/databases")
	ok(t, s.Rename(ctx, s.ids["/music"], "sound"))
	s.want(t, "renamed", "/books", "/books/films", "/sound", "/sound/jazz", "/sound/jazz/bebop", "/sound/programming", "/sound/programming/databases")
	ok(t, s.Rename(ctx, s.ids["/music"], "sound"))
	is(t, s.Move(ctx, s.ids["/music"], s.Under(id)), tree.ErrCycle)
	is(t, s.Move(ctx, s.ids["/music"], s.Under(s.ids["/music"])), tree.ErrCycle)
	is(t, s.Rename(ctx, bson.NewObjectID(), "x"), mongopatterns.ErrNotFound)
	for _, bad := range []string{"", "a/b", "/"} {
		is(t, s.Rename(ctx, id, bad), mongopatterns.ErrInvalid)
		is(t, errOf(s.Insert(ctx, page{Slug: bad}, s.AsRoot())), mongopatterns.ErrInvalid)
	}
	s.want(t, "refused", "/books", "/books/films", "/sound", "/sound/jazz", "/sound/jazz/bebop", "/sound/programming", "/sound/programming/databases")
	plain := get(tree.New[bson.ObjectID, page](s.coll, tree.MaterializedPath, nil))(t)
	is(t, plain.Rename(ctx, id, "x"), mongopatterns.ErrInvalid)
	is(t, errOf(tree.New[bson.ObjectID, page](s.coll, tree.MaterializedPath, &tree.Options{SegmentField: "path"})), mongopatterns.ErrInvalid)
}

// TestSegmentsAreUnique: no two siblings, nor two roots, get one segment, by whatever call.
func TestSegmentsAreUnique(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := openSite(t)
	s.add(t, "/films")
	before := stored(t, s.coll)
	for name, err := range map[string]error{
		"insert":            errOf(s.Insert(ctx, page{Slug: "films"}, s.Under(s.ids["/books"]))),
		"insert a root":     errOf(s.Insert(ctx, page{Slug: "music"}, s.AsRoot())),
		"rename":            s.Rename(ctx, s.ids["/books/programming"], "films"),
		"rename a root":     s.Rename(ctx, s.ids["/music"], "books"),
		"move":              s.Move(ctx, s.ids["/films"], s.Under(s.ids["/books"])),
		"move to the roots": s.Move(ctx, s.ids["/books/films"], s.AsRoot()),
		"promote":           errOf(s.Delete(ctx, s.ids["/books"], mongopatterns.Promote)),
	} {
		wrong(t, !mongo.IsDuplicateKeyError(err) || errors.Is(err, mongopatterns.ErrExists), "%s: %v", name, err)
	}
	match(t, "after refusals", before, stored(t, s.coll))
	entries := func(yield func(tree.Entry[bson.ObjectID, page], error) bool) {
		up := s.ids["/books"]
		for _, slug := range []string{"films", "travel"} {
			if !yield(tree.Entry[bson.ObjectID, page]{Value: page{Slug: slug}, Parent: &up}, nil) {
				return
			}
		}
	}
	got, err := s.Load(ctx, entries, s.AsRoot(), nil)
	wrong(t, !mongo.IsDuplicateKeyError(err) || errors.Is(err, mongopatterns.ErrExists) || got.Done != 1 || got.Failed != 1, "load: %+v, %v", got, err)
}

// TestSegmentOfParent: children that have the segment of the node which they replace.
func TestSegmentOfParent(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	want := []string{"/a", "/a/a", "/a/b", "/a/b/x", "/b", "/b/x", "/music"}
	for _, policy := range []mongopatterns.DeletePolicy{mongopatterns.Promote, mongopatterns.Unlink} {
		s := openSite(t)
		get(s.Delete(ctx, s.ids["/books"], mongopatterns.Cascade))(t)
		for _, at := range []string{"/a", "/a/b", "/a/b/x", "/a/a", "/a/a/a", "/a/a/b", "/a/a/b/x"} {
			s.add(t, at)
		}
		get(s.Delete(ctx, s.ids["/a"], policy))(t)
		s.want(t, "deleted", want...)
	}
}

// TestSegmentsByHand: a slug that is changed by hand makes orphans of the children, and one that no path can hold is
// named. Rename mends it.
func TestSegmentsByHand(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := openSite(t)
	found := func() (kinds []mongopatterns.ProblemKind) {
		for p, err := range s.Check(ctx, nil) {
			ok(t, err)
			kinds = append(kinds, p.Kind)
		}
		return kinds
	}
	changeDoc(t, s.coll, s.ids["/books"], dd("$set", dd("slug", "livres")))
	match(t, "changed by hand", []mongopatterns.ProblemKind{mongopatterns.Orphan, mongopatterns.Orphan}, found())
	is(t, errOf(s.Parent(ctx, s.ids["/books/films"])), mongopatterns.ErrNoParent)
	changeDoc(t, s.coll, s.ids["/books"], dd("$set", dd("slug", "books")))
	s.want(t, "changed back", "/books", "/books/films", "/books/programming", "/books/programming/databases", "/music")

	for _, bad := range []any{"", "x/y", 5, nil, bson.A{"books"}, bson.Regex{Pattern: "."}} {
		changeDoc(t, s.coll, s.ids["/books/films"], dd("$set", dd("slug", bad)))
		match(t, "bad slug", []mongopatterns.ProblemKind{mongopatterns.WrongField}, found())
		is(t, errOf(s.Insert(ctx, page{Slug: "x"}, s.Under(s.ids["/books/films"]))), mongopatterns.ErrInvalid)
		ok(t, s.Rename(ctx, s.ids["/books/films"], "films"))
		s.want(t, "mended", "/books", "/books/films", "/books/programming", "/books/programming/databases", "/music")
	}
	// A root without the delimiter is a root.
	changeDoc(t, s.coll, s.ids["/books"], dd("$set", dd("path", nil)))
	if up := get(s.Ancestors(ctx, s.ids["/books/programming/databases"]))(t); len(up) != 2 || up[0].ID != s.ids["/books"] {
		t.Errorf("ancestors below a root of null: %v", up)
	}
	match(t, "null at a root", []mongopatterns.ProblemKind{mongopatterns.WrongField}, found())
	get(s.Repair(ctx, nil))(t)
	s.want(t, "repaired", "/books", "/books/films", "/books/programming", "/books/programming/databases", "/music")

	// Repair takes an orphan to the roots with what is below it.
	changeDoc(t, s.coll, s.ids["/books/programming"], dd("$set", dd("path", "/gone/")))
	changeDoc(t, s.coll, s.ids["/books/programming/databases"], dd("$set", dd("path", "/gone/programming/")))
	get(s.Repair(ctx, nil))(t)
	s.want(t, "an orphan", "/books", "/books/films", "/music", "/programming", "/programming/databases")
}

// TestSegments: IDs that no path can hold.
func TestSegments(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("pages")
	tr := newAny(t, coll, tree.MaterializedPath, &tree.Options{PathDelimiter: "/"})
	for _, bad := range []any{"", "a/b", 1.5, dd("a", 1)} {
		is(t, errOf(tr.Insert(t.Context(), bson.M{"_id": bad}, tr.AsRoot())), mongopatterns.ErrInvalid)
	}
	plant(t, tr, bson.M{"_id": "größer"}, nil) // bytes, not characters
	plant(t, tr, bson.M{"_id": "$x"}, "größer")
	plant(t, tr, bson.M{"_id": "y"}, "$x")
	ok(t, tr.Move(t.Context(), "$x", tr.AsRoot()))
	match(t, "moved", dd("_id", "y", "path", "/$x/"), stored(t, coll)[2])
	allRight(t, tr)
}

// TestUnusableSegments: nothing is put under, moved with or deleted below a node whose
// path would be another's.
func TestUnusableSegments(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	coll := mongotest.Database(t).Collection("nodes")
	tr := newAny(t, coll, tree.MaterializedPath, nil)
	putDocs(t, coll, bson.M{"_id": 1.0, "path": nil}, bson.M{"_id": "A,B", "path": nil}, bson.M{"_id": 3, "path": nil})
	before := stored(t, coll)
	for _, bad := range []any{1.0, "A,B"} {
		for _, err := range []error{
			errOf(tr.Insert(ctx, bson.M{"_id": 99}, tr.Under(bad))), tr.Move(ctx, 3, tr.Under(bad)), tr.Move(ctx, bad, tr.Under(3)),
			errOf(tr.Delete(ctx, bad, mongopatterns.Restrict)), errOf(tr.Delete(ctx, bad, mongopatterns.Cascade)),
			errOf(tr.Delete(ctx, bad, mongopatterns.Promote)), errOf(tr.Delete(ctx, bad, mongopatterns.Unlink)),
			errOf(tr.Load(ctx, entriesOf[any]("_id", node(99)), tr.Under(bad), nil)),
			errOf(tr.ChildrenFilter(ctx, bad)), errOf(tr.DescendantsFilter(ctx, bad, 0)),
		} {
			is(t, err, mongopatterns.ErrInvalid)
		}
	}
	match(t, "refused, yet", before, stored(t, coll))
}

// TestMalformedPaths: the last segment of a malformed path still counts as the parent for those beside and below.
func TestMalformedPaths(t *testing.T) {
	t.Parallel()
	row := rows(t)
	ctx := t.Context()
	for name, c := range map[string]struct {
		call func(tr *anyTree) error
		want bson.D
		id   string
	}{
		"insert before": {func(tr *anyTree) error { return errOf(tr.Insert(ctx, bson.M{"_id": "x"}, tr.Before("B"))) },
			dd("_id", "x", "n", int64(0), "path", ",A,", "o", int64(65536)), "x"},
		"move": {func(tr *anyTree) error { return tr.Move(ctx, "B", tr.Under("A")) },
			dd("_id", "B", "path", ",A,", "n", 1, "o", int64(196608)), "B"},
		"promote": {func(tr *anyTree) error { return errOf(tr.Delete(ctx, "B", mongopatterns.Promote)) },
			dd("_id", "A", "path", nil, "n", int64(2), "o", 0), "A"},
	} {
		t.Run(name, func(t *testing.T) {
			coll := row()
			tr := newAny(t, coll, tree.MaterializedPath, &tree.Options{OrderField: "o", ChildCountField: "n"})
			putDocs(t, coll, dd("_id", "A", "path", nil, "n", 2, "o", 0), dd("_id", "B", "path", "A", "n", 1, "o", 131072),
				dd("_id", "C", "path", ",A,", "n", 0, "o", 131072), dd("_id", "D", "path", "AB,", "n", 0, "o", 5))
			ok(t, c.call(tr))
			var got bson.D
			ok(t, coll.FindOne(ctx, dd("_id", c.id)).Decode(&got))
			match(t, "", toD(t, c.want), got)
		})
	}
}

// TestPathNeighbours has segments that are prefixes of others.
func TestPathNeighbours(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	v := variants()[3]
	tr := v.open(t, mongotest.Database(t).Collection("nodes"))
	insertAll(t, v, tr, [][2]string{{"A", ""}, {"A-B", "A"}, {"A-BA", "A"}, {"A-B.", "A"}, {"a-b", "A"},
		{"x", "A-B"}, {"y", "A-BA"}, {"z", "A-B."}, {"w", "a-b"}, {"^A", ""}, {"v", "^A"}, {"A.", ""}, {"u", "A."}})
	v.want(t, "descendants of A-B", v.ids(t, tr.Descendants(ctx, "A-B", 0)), "x")
	v.want(t, "descendants of A-B.", v.ids(t, tr.Descendants(ctx, "A-B.", 0)), "z")
	v.want(t, "descendants of ^A", v.ids(t, tr.Descendants(ctx, "^A", 0)), "v")
	v.want(t, "descendants of A.", v.ids(t, tr.Descendants(ctx, "A.", 0)), "u")
	ok(t, tr.Move(ctx, "A-B", tr.Under("^A")))
	v.want(t, "descendants of ^A", v.ids(t, tr.Descendants(ctx, "^A", 0)), "v", "A-B", "x")
	v.want(t, "descendants of A", v.ids(t, tr.Descendants(ctx, "A", 0)), "A-BA", "A-B.", "a-b", "y", "z", "w")
	healthy(t, tr)
}

// A path holds IDs of one type: a node under a parent with an ID of another type would be read as below another node.
func TestPathOfOneType(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	coll := mongotest.Database(t).Collection("nodes")
	tr := newAny(t, coll, tree.MaterializedPath, nil)
	plant(t, tr, bson.M{"_id": 1}, nil)
	plant(t, tr, bson.M{"_id": int64(2)}, 1)
	plant(t, tr, bson.M{"_id": "r"}, nil)
	is(t, errOf(tr.Insert(ctx, bson.M{"_id": "2"}, tr.Under(1))), mongopatterns.ErrInvalid)
	is(t, tr.Move(ctx, "r", tr.Under(1)), mongopatterns.ErrInvalid)
	is(t, errOf(tr.Load(ctx, entriesOf[any]("_id", node("2")), tr.Under(1), nil)), mongopatterns.ErrInvalid)
	putDocs(t, coll, dd("_id", "2", "parent", 1), dd("_id", "x", "parent", "2"), dd("_id", 3, "parent", 2.0))
	got := get(tr.Adopt(ctx, nil))(t)
	wrong(t, got.Done != 1 || got.Remaining != 2, "%+v", got)
	found := 0
	for p, err := range tr.Check(ctx, nil) {
		found++
		wrong(t, err != nil || p.ID.StringValue() != "2" || !strings.Contains(p.Detail, "another type"), "%v, %v", p, err)
	}
	wrong(t, found != 1, "%d problems", found)

	from := newAny(t, coll, tree.ParentReferences, nil)
	to := newAny(t, coll, tree.MaterializedPath, &tree.Options{PathField: "new"})
	got = get(tree.Convert(ctx, from, to, nil))(t)
	wrong(t, got.Remaining != 2, "%+v", got)
}

// A node without a path is not renamed, moved or deleted with what is below it, because that may be below a root with its
// segment.
func TestNodeWithoutAPath(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := openSite(t)
	s.add(t, "/music/jazz")
	for _, doc := range []bson.M{{"slug": "music"}, {"slug": "music", "parent": s.ids["/books"]}, {"slug": "books", "path": nil}} {
		bare := bson.NewObjectID()
		doc["_id"] = bare
		testkit.Insert(t, s.coll, doc)
		before := stored(t, s.coll)
		is(t, s.Rename(ctx, bare, "sound"), mongopatterns.ErrNotAdopted)
		is(t, s.Move(ctx, bare, s.Under(s.ids["/books/films"])), mongopatterns.ErrNotAdopted)
		is(t, errOf(s.Delete(ctx, bare, mongopatterns.Cascade)), mongopatterns.ErrNotAdopted)
		is(t, errOf(s.Delete(ctx, bare, mongopatterns.Promote)), mongopatterns.ErrNotAdopted)
		match(t, "after the refusals", before, stored(t, s.coll))
		testkit.OK(t, testkit.ErrorOf(s.coll.DeleteOne(ctx, bson.M{"_id": bare})))
	}
}
