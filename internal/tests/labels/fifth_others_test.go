package labels_test

import "go.mongodb.org/mongo-driver/v2/bson"

// Collections that tempt to several patterns, or to none that advise has.
func fifthOtherCases() []labelled {
	return []labelled{
		{
			name: "seats", service: "circus",
			why: "the plan of an evening has all its seats as cells of one document, taken by guarded updates",
			colls: []coll{{name: "seats", n: 80, doc: func(g gen, i int) bson.D {
				return d("_id", at(i*24), "rangs", d(pairs(fifthSkills, func(string) any {
					return d("1", d(), "2", d("par", g.name()),
						"3", d())
				})...))
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) { s.one("seats", d("_id", at(s.IntN(80)*24)), nil) }},
				{60, func(s *session, i int) {
					seat := "rangs." + s.of(fifthSkills...) + ".1.par"
					s.update("seats", d("_id", at(s.IntN(80)*24), seat, d("$exists", false)), d("$set", d(seat, key("commande", i))))
				}},
			},
		},
		{
			name: "tasks", service: "jobs",
			why: "a queue takes its first open task by findOneAndUpdate on an index, and ends it by its _id",
			colls: []coll{{name: "tasks", n: 1500, indexes: []string{"state,due"}, doc: func(g gen, i int) bson.D {
				return d("_id", uuid(80, i), "state", "open", "due", minute(i), "kind", g.of("mail", "index"), "payload", g.text(60))
			}}},
			traffic: []requests{
				{150, func(s *session, _ int) {
					s.pop("tasks", d("state", "open"), d("due", 1), d("$set", d("state", "taken")))
				}},
				{100, func(s *session, _ int) {
					s.update("tasks", d("_id", uuid(80, s.IntN(1500))), d("$set", d("state", "done")))
				}},
			},
		},
		{
			name: "reglamentos", service: "dentist",
			why: "the current text stands in one collection and its revisions in another, as a history should, and reads need one",
			colls: []coll{
				{name: "reglamentos", n: 300, doc: func(g gen, i int) bson.D {
					return d("_id", key("reg", i), "texto", g.text(600), "revision", 4, "change", d("at", at(i), "author", g.name()))
				}},
				{name: "reglamentos_rev", n: 900, indexes: []string{"reg,revision"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(90, i), "reg", key("reg", i%300), "revision", 1+i/300, "document", d("texto", g.text(600)))
				}},
			},
			traffic: []requests{
				{130, func(s *session, _ int) { s.one("reglamentos", d("_id", key("reg", s.IntN(300))), nil) }},
				{10, func(s *session, _ int) {
					s.one("reglamentos_rev", d("reg", key("reg", s.IntN(300)), "revision", s.between(1, 3)), nil)
				}},
			},
		},
		{
			name: "vieilles_archives", service: "circus",
			why: "nine in ten documents are older than two years, but whether somebody still reads them only the circus knows",
			colls: []coll{{name: "vieilles_archives", n: 2500, indexes: []string{"dossier"}, doc: func(g gen, i int) bson.D {
				return d("_id", int32(i), "dossier", key("do", i/3), "fermé", at(-i*20), "texte", g.text(90))
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) { s.find("vieilles_archives", d("dossier", key("do", s.IntN(830))), by{}) }},
			},
		},
		{
			name: "kundekort", service: "bikeshare",
			why: "old cards have one name and new ones two, which is a matter of versions and of no pattern that a query would gain by",
			colls: []coll{{name: "kundekort", n: 1500, indexes: []string{"nr"}, doc: func(g gen, i int) bson.D {
				if i < 600 {
					return d("_id", int64(i), "nr", i, "navn", g.name())
				}
				return d("_id", int64(i), "v", 2, "nr", i, "fornavn", g.name(), "efternavn", g.name())
			}}},
			traffic: []requests{
				{150, func(s *session, _ int) { s.one("kundekort", d("nr", s.IntN(1500)), nil) }},
			},
		},
		{
			name: "stemmen", service: "customs",
			why:   "the form keeps a handful of answers by question in an array, always read and replaced whole",
			colls: []coll{{name: "stemmen", n: 1200, doc: func(g gen, i int) bson.D { return fifthForm(g, i) }}},
			traffic: []requests{
				{120, func(s *session, _ int) { s.one("stemmen", d("_id", numbered("F", s.IntN(1200))), nil) }},
				{60, func(s *session, _ int) { s.save("stemmen", fifthForm(s.gen, s.IntN(1200))) }},
			},
		},
		{
			name: "winners", service: "lottery",
			why: "winners are found by name and by day with plain equalities on indexes, a few documents each",
			colls: []coll{{name: "winners", n: 2500, indexes: []string{"zi", "nume"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(91, i), "zi", at(i/5*24), "nume", g.name(), "bani", cents(g.between(1000, 900_000)))
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) { s.find("winners", d("zi", at(s.IntN(500)*24)), by{}) }},
				{60, func(s *session, _ int) { s.values("winners", "nume", d("zi", at(s.IntN(500)*24))) }},
			},
		},
		{
			name: "playlists", service: "podcast",
			why: "a list of at most fifteen names is embedded, changes rarely, and is read with its document",
			colls: []coll{{name: "playlists", n: 1200, indexes: []string{"owner"}, doc: func(g gen, i int) bson.D {
				return d("_id", uuid(81, i), "owner", i%400, "title", g.text(12), "topics",
					list(g.between(1, 15), func(int) any { return g.text(8) }))
			}}},
			traffic: []requests{
				{150, func(s *session, _ int) { s.find("playlists", d("owner", s.IntN(400)), by{}) }},
				{10, func(s *session, _ int) {
					s.update("playlists", d("_id", uuid(81, s.IntN(1200))), d("$set", d("topics",
						list(5, func(int) any { return s.text(8) }))))
				}},
			},
		},
		{
			name: "uniforms", service: "choir",
			why: "a few hundred small documents are read by one equality and edited in place",
			colls: []coll{{name: "uniforms", n: 400, indexes: []string{"izmērs"}, doc: func(g gen, i int) bson.D {
				return d("_id", int64(i), "izmērs", 36+i%20, "krāsa", g.of("zila", "balta"), "kam", g.name())
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) { s.find("uniforms", d("izmērs", 36+s.IntN(20)), by{}) }},
				{50, func(s *session, _ int) {
					s.update("uniforms", d("_id", int64(s.IntN(400))), d("$set", d("kam", s.name())))
				}},
			},
		},
		{
			name: "koordinate", service: "sawmill",
			why: "a parcel has its outline of a hundred points, all of them always drawn",
			colls: []coll{{name: "koordinate", n: 700, doc: func(g gen, i int) bson.D {
				return d("_id", key("KO", i), "obris", list(g.between(80, 120), func(int) any {
					return a{g.Float64() * 20,
						g.Float64() * 50}
				}))
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) { s.one("koordinate", d("_id", key("KO", s.IntN(700))), nil) }},
			},
		},
		{
			name: "menus", service: "kindergarten",
			why: "each week has five meals by nature, embedded and read with their week",
			colls: []coll{{name: "menus", n: 600, doc: func(g gen, i int) bson.D {
				return d("_id", at(i*168), "meals", list(5, func(j int) any {
					return d("day", j, "dish", g.text(16), "allergens",
						a{"milk", "egg"})
				}))
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) { s.one("menus", d("_id", at(s.IntN(600)*168)), nil) }},
				{20, func(s *session, _ int) {
					s.patch("menus", d("_id", at(s.IntN(600)*168)), d("$set", d("meals.$[m].dish", s.text(16))), d("m.day", s.IntN(5)))
				}},
			},
		},
	}
}

func fifthForm(g gen, i int) bson.D {
	return d("_id", numbered("F", i), "antwoorden", list(6, func(j int) any {
		return d("vraag", j, "antwoord",
			g.of("ja", "nee"))
	}))
}
