package words_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/mongopatterns/mongopatterns/internal/tests/testkit"
)

// rejected maps exported names that duplicated the meaning of another word to that word. A name with a dot
// is rejected in that package only and is fine elsewhere.
var rejected = map[string]string{
	"ErrParentNotFound": "mongopatterns.ErrNoParent", "ErrHasChildren": "mongopatterns.ErrReferenced",
	"ErrConcurrentAdopt": "mongopatterns.ErrRunning", "ErrContended": "mongopatterns.ErrConflict",
	"ErrNotArray": "mongopatterns.ErrMalformed", "NotArray": "Malformed", "InvalidItem": "Malformed", "InvalidRevision": "Malformed",
	"BadStart": "Malformed", "BadSource": "Malformed", "WrongAggregate": "WrongField", "WrongTotal": "WrongField", "Drifted": "WrongField",
	"WrongCount": "WrongField", "WrongValue": "WrongField", "PresentAndNot": "Exists and NotOrMissing",
	"prealloc.Days": "DayCells", "paging.Keys": "SigningKeys", "schemaversion.First": "FirstVersion",
	"Policy": "a bool, or mongopatterns.DeletePolicy", "Follow": "Field.Frozen", "Freeze": "Field.Frozen",
	"Refuse": "mongopatterns.Restrict", "Unset": "mongopatterns.Unlink",
	"DuplicateID": "Duplicate", "DuplicateRevision": "Duplicate", "Repeated": "Duplicate", "Differs": "Different",
	"Create": "Insert", "FindOrCreate": "FindOrInsert",
	"subset.Add": "Insert", "subset.AddMany": "InsertMany", "split.Add": "Insert", "series.Add": "Append",
	"attribute.SetMany": "SetAll", "bucket.Update": "Replace", "series.Update": "Replace", "attribute.Change": "Replace", "versioning.Update": "Edit",
	"bucket.Page": "Bucket", "bucket.Pages": "CountBuckets",
	"Versions": "Collection", "versioning.Documents": "History", "Ref": "Source", "Reference": "Copy", "For": "As",
	"OfMany": "ChildrenOf", "relation.Newest": "First", "AdoptHistory": "AdoptRevisions",
	"subset.Order": "Sort", "relation.Max": "MaxCount", "schemaversion.State": "Leases", "polymorphic.Field": "KindField",
	"outlier.Page": "Slice", "relation.Owner": "OwnerField", "relation.Owners": "OwnersField",
}

// names returns the exported names of a file: functions, methods, types, constants, variables and the
// fields of Options.
func names(file *ast.File) []string {
	var out []string
	add := func(idents ...*ast.Ident) {
		for _, id := range idents {
			if id.IsExported() {
				out = append(out, id.Name)
			}
		}
	}
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil || ast.IsExported(receiver(d)) {
				add(d.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.ValueSpec:
					add(s.Names...)
				case *ast.TypeSpec:
					add(s.Name)
					if fields, ok := s.Type.(*ast.StructType); ok && strings.HasSuffix(s.Name.Name, "Options") {
						for _, f := range fields.Fields.List {
							add(f.Names...)
						}
					}
				}
			}
		}
	}
	return out
}

// second returns the word to use instead of a name in a package, "" if the name is fine.
func second(dir, name string) string {
	if word, ok := rejected[dir+"."+name]; ok {
		return word
	}
	return rejected[name]
}

// No package has a second word for the same thing.
func TestRejectedWords(t *testing.T) {
	for _, dir := range testkit.Patterns(t) {
		if dir == "advise" {
			continue
		}
		for _, file := range parse(t, dir) {
			for _, name := range names(file) {
				if word := second(dir, name); word != "" {
					t.Errorf("%s.%s: the word is %s", dir, name, word)
				}
			}
		}
	}
}

// Each row is found, whatever kind of name it is.
func TestRejectedWordsAreSeen(t *testing.T) {
	for _, row := range slices.Sorted(maps.Keys(rejected)) {
		dir, name, own := strings.Cut(row, ".")
		if !own {
			dir, name = "any", row
		}
		for _, source := range []string{
			"func " + name + "() {}", "type T struct{}\nfunc (T) " + name + "() {}", "type " + name + " int",
			"const " + name + " = 1", "var " + name + " = 1", "type Options struct { " + name + " int }",
		} {
			file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\n"+source, 0)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(names(file), func(n string) bool { return second(dir, n) != "" }) {
				t.Errorf("%s is not seen in %q", row, source)
			}
		}
	}
}

// meanings are the words that several packages use: functions and methods, and the fields of options, with
// what each of them means wherever it occurs.
var meanings = map[string]string{
	"Add":              "adds to what a key or list holds: a count, an element, an entry",
	"Adopt":            "takes over data of other code",
	"Aggregate":        "count and statistics of a range",
	"AggregateWindows": "Aggregate by windows",
	"All":              "yields the whole list in order",
	"Append":           "stores a measurement",
	"AppendMany":       "Append of a sequence",
	"Archive":          "moves documents of old windows to another collection",
	"As":               "the same helper for another type of value",
	"At":               "the one at a place: a cell by name, a revision by number",
	"Check":            "yields problems",
	"Children":         "the children of a parent, read",
	"ChildrenFilter":   "selects the children of a parent",
	"Close":            "flushes and ends",
	"Compare":          "yields differences between the source of an Adopt and what was adopted",
	"Decode":           "decodes a stored document",
	"Delete":           "deletes what the ID names",
	"DeleteParent":     "deletes a parent and what belongs to it",
	"Drain":            "does the work that waits in a queue",
	"Encode":           "encodes as it is stored",
	"EnsureIndexes":    "creates Indexes",
	"Error":            "of error",
	"Fetch":            "reads other documents by ID",
	"Filter":           "selects stored documents, for queries of your own",
	"Find":             "the driver's Find, decoded",
	"First":            "the first in the order",
	"Flush":            "writes what waits in memory",
	"Get":              "reads what the ID names",
	"Indexes":          "the indexes that the calls need",
	"Insert":           "stores a new document",
	"Latest":           "the newest measurement",
	"Link":             "adds a reference between a parent and a child",
	"MarshalBSON":      "of bson.Marshaler",
	"MarshalJSON":      "of json.Marshaler",
	"Move":             "moves documents to another place",
	"Must":             "panics if New fails, for package variables",
	"New":              "makes a helper, without I/O",
	"Of":               "from a type or values of it",
	"Parents":          "the parents of a child",
	"Range":            "from a bound until before another",
	"Remove":           "removes from what a key or list holds",
	"Repair":           "solves problems that Check yields",
	"Replace":          "replaces what exists, as a whole",
	"Restore":          "brings back what was there before",
	"Run":              "flushes at intervals until the context ends",
	"Set":              "sets the value at a place, present or not",
	"ShardKey":         "the recommended shard keys",
	"Sort":             "the order of items",
	"String":           "of fmt.Stringer",
	"Unlink":           "removes a reference between a parent and a child",
	"UnmarshalBSON":    "of bson.Unmarshaler",
	"UnmarshalJSON":    "of json.Unmarshaler",
	"Unwrap":           "of errors",
	"Update":           "a driver update of one document",

	"Options.ArrayField":    "the array that the pattern keeps",
	"Options.BSON":          "the client's BSON options",
	"Options.BytesField":    "the size in bytes",
	"Options.CountField":    "the number of items",
	"Options.ChildrenField": "the list of child IDs in a parent",
	"Options.EndField":      "the end of the window",
	"Options.EndTime":       "what the end is",
	"Options.IDField":       "the ID of an item, node or half",
	"Options.KeyField":      "the field that holds the key",
	"Options.Lease":         "how long others wait for a process that has begun",
	"Options.MarkField":     "tells incarnations of a document apart",
	"Options.MaxBytes":      "the largest size in bytes",
	"Options.MaxCount":      "the largest number of items",
	"Options.Metadata":      "further fields of a new document",
	"Options.ParentField":   "the parent's ID in a child",
	"Options.Registry":      "the client's registry",
	"Options.RevisionField": "a number that every write raises",
	"Options.SeriesField":   "the ID of the series",
	"Options.Scope":         "the tenant whose documents there are",
	"Options.Sort":          "the order of items",
	"Options.StartField":    "the beginning of the window",
	"Options.TimeField":     "the time of a measurement or document",
	"Options.Values":        "the values with aggregates",
	"Options.VersionField":  "the version of a document",
}

// A name that several packages use has one meaning. A new one, or one that another package begins to use,
// needs a row; an option has one type.
func TestMeanings(t *testing.T) {
	packages, kinds := map[string]map[string]bool{}, map[string]map[string]bool{}
	use := func(name, dir, kind string) {
		if packages[name] == nil {
			packages[name], kinds[name] = map[string]bool{}, map[string]bool{}
		}
		packages[name][dir], kinds[name][kind] = true, true
	}
	for _, dir := range append(testkit.Patterns(t), "timeseries") {
		if dir == "advise" {
			continue
		}
		for _, file := range parse(t, dir) {
			for _, decl := range file.Decls {
				switch d := decl.(type) {
				case *ast.FuncDecl:
					if d.Name.IsExported() && (d.Recv == nil || ast.IsExported(receiver(d))) {
						use(d.Name.Name, dir, "")
					}
				case *ast.GenDecl:
					for _, spec := range d.Specs {
						s, ok := spec.(*ast.TypeSpec)
						if !ok || s.Name.Name != "Options" {
							continue
						}
						for _, f := range s.Type.(*ast.StructType).Fields.List {
							for _, name := range f.Names {
								use("Options."+name.Name, dir, strings.SplitN(text(f.Type), "(", 2)[0])
							}
						}
					}
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		in := slices.Sorted(maps.Keys(packages[name]))
		if len(in) > 1 && meanings[name] == "" {
			t.Errorf("%s has no meaning, and is in %v", name, in)
		}
		if types := slices.Sorted(maps.Keys(kinds[name])); len(types) > 1 && name != "Options.Values" {
			t.Errorf("%s is %v in %v", name, types, in)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(meanings)) {
		if len(packages[name]) < 2 {
			t.Errorf("%s is not in several packages: %v", name, slices.Sorted(maps.Keys(packages[name])))
		}
	}
}

// A kind of problem that several packages report is defined in the root, under the same name, and no two
// kinds have the same text.
func TestProblemKinds(t *testing.T) {
	const general = "mongopatterns"
	owner, texts := map[string]string{}, map[string]string{}
	define := func(dir, name, value string) {
		if first, ok := owner[name]; ok && first != dir {
			t.Errorf("%s.%s: %s has a kind of this name", dir, name, first)
		}
		if first, ok := texts[value]; ok && first != name {
			t.Errorf("%s.%s: %s has this text", dir, name, first)
		}
		owner[name], texts[value] = dir, name
	}
	kinds(t, ".", func(name, value string) { define(general, name, value) })
	if len(owner) < 5 {
		t.Fatalf("only %v", owner)
	}
	for _, dir := range testkit.Patterns(t) {
		kinds(t, dir, func(name, value string) {
			switch alias, ok := strings.CutPrefix(value, general+"."); {
			case !ok:
				define(dir, name, value)
			case alias != name:
				t.Errorf("%s.%s is %s", dir, name, value)
			}
		})
	}
}

// kinds calls yield for each exported constant of a package that is a ProblemKind, by its type or as another
// name of one of the root's, with the expression that it is set to.
func kinds(t *testing.T, dir string, yield func(name, value string)) {
	t.Helper()
	for _, file := range parse(t, dir) {
		for _, decl := range file.Decls {
			d, ok := decl.(*ast.GenDecl)
			if !ok || d.Tok != token.CONST {
				continue
			}
			for _, spec := range d.Specs {
				s := spec.(*ast.ValueSpec)
				for i, value := range s.Values {
					if strings.HasSuffix(text(s.Type), "ProblemKind") || s.Type == nil && strings.HasPrefix(text(value), "mongopatterns.") {
						yield(s.Names[i].Name, text(value))
					}
				}
			}
		}
	}
}

// A reader of the documentation sees no internal type, no unexported field of an option, and no result
// without a name beside one that has a name.
func TestPlainSignatures(t *testing.T) {
	for _, dir := range append(testkit.Patterns(t), ".", "timeseries", "mongotest") {
		for _, file := range parse(t, dir) {
			internal := map[string]bool{} // names of imported internal packages
			for _, imported := range file.Imports {
				if path := strings.Trim(imported.Path.Value, `"`); strings.Contains(path, "/internal/") {
					internal[path[strings.LastIndex(path, "/")+1:]] = true
				}
			}
			shown := func(name string, node ast.Node) {
				ast.Inspect(node, func(n ast.Node) bool {
					if s, ok := n.(*ast.SelectorExpr); ok && internal[text(s.X)] {
						t.Errorf("%s.%s shows %s", dir, name, text(s))
					}
					return true
				})
			}
			for _, decl := range file.Decls {
				switch d := decl.(type) {
				case *ast.FuncDecl:
					if !d.Name.IsExported() || d.Recv != nil && !ast.IsExported(receiver(d)) {
						continue
					}
					shown(d.Name.Name, d.Type)
					for _, f := range list(d.Type.Results) {
						for _, name := range f.Names {
							if name.Name == "_" {
								t.Errorf("%s.%s has a result _", dir, d.Name.Name)
							}
						}
					}
				case *ast.GenDecl:
					for _, spec := range d.Specs {
						s, ok := spec.(*ast.TypeSpec)
						if !ok || !s.Name.IsExported() {
							continue
						}
						fields, ok := s.Type.(*ast.StructType)
						if !ok {
							shown(s.Name.Name, s.Type)
							continue
						}
						for _, f := range fields.Fields.List {
							for _, name := range f.Names {
								if name.IsExported() {
									shown(s.Name.Name+"."+name.Name, f.Type)
								} else if strings.HasSuffix(s.Name.Name, "Options") {
									t.Errorf("%s.%s.%s is not exported", dir, s.Name.Name, name.Name)
								}
							}
						}
					}
				}
			}
		}
	}
}

func list(fields *ast.FieldList) []*ast.Field {
	if fields == nil {
		return nil
	}
	return fields.List
}
