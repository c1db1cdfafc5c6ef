package server_test

import (
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongopatterns/mongopatterns/internal/expr"
	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
	"github.com/mongopatterns/mongopatterns/mongotest"
)

// A row is one question to the server.
type row struct {
	asked string // what is asked, in words
	needs string // the answer that the library needs, as text shows it
	by    string // the packages whose code needs it
	ask   func(s *server) any
}

// rows are those of the files of this package, by their subject.
var rows = map[string][]row{
	"arithmetic":   arithmetic,
	"order":        order,
	"null":         null,
	"arrays":       arrays,
	"expressions":  expressions,
	"updates":      updates,
	"plans":        plans,
	"joins":        joins,
	"refusals":     refusals,
	"transactions": transactions,
	"faults":       faults,
	"streams":      streams,
	"catalog":      catalog,
}

func TestServer(t *testing.T) {
	for subject, all := range rows {
		t.Run(subject, func(t *testing.T) {
			t.Parallel()
			db := mongotest.Database(t) // its client is the one that fail points fail and that is recorded
			for i, r := range all {
				t.Run(r.asked, func(t *testing.T) {
					s := &server{t, db, db.Collection(subject + strconv.Itoa(i))}
					if got := s.answer(r); got != r.needs {
						t.Errorf("%s: the server answers %s, and the library needs %s; this touches %s", r.asked, got, r.needs, touched(r.by))
					}
				})
			}
		})
	}
}

// Each row names packages that exist, and no two rows of a subject ask the same.
func TestRows(t *testing.T) {
	for subject, all := range rows {
		asked := map[string]bool{}
		for _, r := range all {
			if r.by == "" || asked[r.asked] {
				t.Errorf("%s: %q has no package, or is there twice", subject, r.asked)
			}
			asked[r.asked] = true
			for _, folder := range strings.Fields(r.by) {
				if folder == "mongopatterns" {
					folder = "."
				}
				if files, err := filepath.Glob(filepath.Join(folder, "*.go")); err != nil || len(files) == 0 {
					t.Errorf("%s: %q names the package %q, which does not exist", subject, r.asked, folder)
				}
			}
		}
	}
}

// several is how many packages a sentence names.
const several = 8

// touched names packages and, for internal ones, those that import them.
func touched(by string) string {
	out := strings.Fields(by)
	for i, folder := range out {
		if strings.HasPrefix(folder, "internal/") {
			users := importers(folder)
			if len(users) > several {
				users = []string{"most packages"}
			}
			out[i] += " (used by " + strings.Join(users, ", ") + ")"
		}
	}
	return strings.Join(out, ", ")
}

// importers are the public packages whose code imports an internal one, directly or by another internal one.
func importers(folder string) []string {
	users, todo := map[string]bool{}, []string{folder}
	for len(todo) > 0 {
		path := strconv.Quote(testkit.Module + "/" + todo[0])
		todo = todo[1:]
		for _, file := range slices.Concat(testkit.Must(filepath.Glob("*/*.go")), testkit.Must(filepath.Glob("internal/*/*.go"))) {
			user := filepath.ToSlash(filepath.Dir(file))
			if strings.HasSuffix(file, "_test.go") || users[user] {
				continue
			}
			parsed := testkit.Must(parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly))
			for _, i := range parsed.Imports {
				if i.Path.Value == path {
					users[user] = true
					todo = append(todo, user)
				}
			}
		}
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(users)), func(user string) bool { return strings.HasPrefix(user, "internal/") })
}

// server is what a row asks: a server, and a collection for the row alone.
type server struct {
	t  *testing.T
	db *mongo.Database
	c  *mongo.Collection
}

// answer asks, and says what the server did. A row panics with an error that it has no answer for: the server refuses
// what must work.
func (s *server) answer(r row) (out string) {
	defer func() {
		switch e := recover().(type) {
		case nil:
		case runtime.Error:
			panic(e)
		case error:
			out = refusal(e) + ", " + strconv.Quote(e.Error())
		default:
			panic(e)
		}
	}()
	return text(r.ask(s))
}

// skip ends a row that the server cannot be asked.
func (s *server) skip(reason string) { s.t.Skip("not asked: " + reason) }

// may skips a row if the server refuses a command for lack of rights, or does not have it.
func (s *server) may(err error) {
	const unauthorized, notFound, atlas = 13, 59, 8000
	var refused mongo.ServerError
	if errors.As(err, &refused) && slices.ContainsFunc([]int{unauthorized, notFound, atlas}, refused.HasErrorCode) {
		s.skip("the server refuses it: " + err.Error())
	}
	if err != nil {
		panic(err)
	}
}

// refusal is an error of the server in words.
func refusal(err error) string {
	var command mongo.CommandError
	var refused mongo.ServerError
	switch {
	case errors.As(err, &command) && command.Name != "":
		return fmt.Sprintf("a refusal with %d %s", command.Code, command.Name)
	case errors.As(err, &refused) && len(refused.ErrorCodes()) > 0:
		return fmt.Sprintf("a refusal with %d", refused.ErrorCodes()[0])
	case err == nil:
		return "yes"
	}
	return "an error"
}

// text shows an answer: words as they are, other values with their types.
func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case error:
		return refusal(v)
	case bson.RawValue:
		return shown(v)
	}
	return shown(bson.Raw(testkit.Must(bson.Marshal(expr.D("v", v)))).Lookup("v"))
}

func shown(v bson.RawValue) string {
	switch v.Type {
	case 0:
		return "nothing"
	case bson.TypeDouble:
		return "double " + strconv.FormatFloat(v.Double(), 'g', -1, 64)
	case bson.TypeInt32:
		return strconv.Itoa(int(v.Int32()))
	case bson.TypeInt64:
		return "long " + strconv.FormatInt(v.Int64(), 10)
	case bson.TypeDecimal128:
		return "decimal " + v.Decimal128().String()
	case bson.TypeString:
		return strconv.Quote(v.StringValue())
	case bson.TypeBoolean:
		return strconv.FormatBool(v.Boolean())
	case bson.TypeDateTime:
		return "date " + strconv.FormatInt(v.DateTime(), 10)
	case bson.TypeArray:
		var out []string
		for _, inner := range testkit.Must(v.Array().Values()) {
			out = append(out, shown(inner))
		}
		return "[" + strings.Join(out, ", ") + "]"
	case bson.TypeEmbeddedDocument:
		var out []string
		for _, e := range testkit.Must(v.Document().Elements()) {
			out = append(out, e.Key()+": "+shown(e.Value()))
		}
		return "{" + strings.Join(out, ", ") + "}"
	}
	return v.Type.String()
}

// insert inserts documents.
func (s *server) insert(docs ...any) {
	_ = testkit.Must(s.c.InsertMany(s.t.Context(), docs))
}

// index creates an index.
func (s *server) index(keys bson.D, opts *options.IndexOptionsBuilder) {
	_ = testkit.Must(s.c.Indexes().CreateOne(s.t.Context(), mongo.IndexModel{Keys: keys, Options: opts}))
}

// updated inserts a document, updates it, and returns its field "v".
func (s *server) updated(doc bson.D, update any) any {
	doc = slices.Concat(expr.D("_id", bson.NewObjectID()), doc)
	s.insert(doc)
	_, err := s.c.UpdateOne(s.t.Context(), expr.D("_id", doc[0].Value), update)
	if err != nil {
		return err
	}
	return testkit.Must(s.c.FindOne(s.t.Context(), expr.D("_id", doc[0].Value)).Raw()).Lookup("v")
}

// set is the update that computes the field "v".
func set(v any) mongo.Pipeline { return mongo.Pipeline{expr.Op("$set", expr.D("v", v))} }

// computed is the value of an expression of a document: in an update, in a find and in an aggregation, which are code of
// their own in some servers.
func (s *server) computed(doc bson.D, v any) any {
	updated := text(s.updated(doc, set(v)))
	projected := s.c.FindOne(s.t.Context(), bson.D{}, options.FindOne().SetProjection(expr.D("_id", 0, "v", v)))
	find := text(stored(projected))
	aggregate := text(s.grouped(expr.Op("$max", expr.Op("$let", expr.D("vars", bson.D{}, "in", v)))))
	if updated == find && find == aggregate {
		return find
	}
	return fmt.Sprintf("%s in an update, %s in a find, %s in $group", updated, find, aggregate)
}

func stored(r *mongo.SingleResult) any {
	raw, err := r.Raw()
	if err != nil {
		return err
	}
	return raw.Lookup("v")
}

// grouped is the value of an accumulator over documents.
func (s *server) grouped(accumulator bson.D, docs ...any) any {
	if len(docs) > 0 {
		s.insert(docs...)
	}
	all, err := s.aggregate(expr.Op("$group", expr.D("_id", nil, "v", accumulator)))
	if err != nil {
		return err
	}
	return all[0].Lookup("v")
}

func (s *server) aggregate(stages ...bson.D) (all []bson.Raw, err error) {
	cursor, err := s.c.Aggregate(s.t.Context(), mongo.Pipeline(stages))
	if err == nil {
		err = cursor.All(s.t.Context(), &all)
	}
	return all, err
}

// found are the _ids of the documents that match, in the order of _id or of sort.
func (s *server) found(filter any, sort ...any) any {
	by := expr.D("_id", 1)
	if len(sort) > 0 {
		by = expr.D(sort...)
	}
	cursor, err := s.c.Find(s.t.Context(), filter, options.Find().SetSort(by).SetProjection(expr.D("_id", 1)))
	var all []bson.Raw
	if err == nil {
		err = cursor.All(s.t.Context(), &all)
	}
	if err != nil {
		return err
	}
	return ids(all)
}

func ids(all []bson.Raw) bson.A {
	out := bson.A{}
	for _, doc := range all {
		out = append(out, doc.Lookup("_id"))
	}
	return out
}

// numbered are documents with the _ids 1, 2, … and these values of the field "v"; absent stands for no field.
func (s *server) numbered(values ...any) {
	docs := make([]any, len(values))
	for i, v := range values {
		doc := expr.D("_id", i+1, "v", v)
		if v == absent {
			doc = doc[:1]
		}
		docs[i] = doc
	}
	s.insert(docs...)
}

type nothing struct{}

var absent any = nothing{}

// plan is the plan of a find.
func (s *server) plan(filter any, more ...any) mongotest.Plan {
	find := append(expr.D("find", s.c.Name(), "filter", filter), expr.D(more...)...)
	return testkit.Must(mongotest.ExplainCommand(s.t.Context(), s.db, find))
}

// run runs a command on the database.
func (s *server) run(pairs ...any) (bson.Raw, error) {
	return s.db.RunCommand(s.t.Context(), expr.D(pairs...)).Raw()
}

// admin runs a command on the database admin.
func (s *server) admin(pairs ...any) (bson.Raw, error) {
	return s.db.Client().Database("admin").RunCommand(s.t.Context(), expr.D(pairs...)).Raw()
}

// profile sets the level of the profiler, for which the user of the tests lacks the right.
func (s *server) profile(level int) error {
	return mongotest.Admin(s.t, s.db).RunCommand(s.t.Context(), expr.D("profile", level)).Err()
}

// decimal is a Decimal128.
func decimal(digits string) bson.Decimal128 { return testkit.Must(bson.ParseDecimal128(digits)) }

var undefined = bson.Undefined{}

// has says whether a command answers with all of these fields, and which it lacks.
func has(doc bson.Raw, paths ...string) string {
	missing := slices.DeleteFunc(slices.Clone(paths), func(path string) bool { return doc.Lookup(strings.Split(path, ".")...).Type != 0 })
	if len(missing) == 0 {
		return "all of them"
	}
	return "an answer without " + strings.Join(missing, ", ")
}
