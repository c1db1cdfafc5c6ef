package labels_test

import "go.mongodb.org/mongo-driver/v2/bson"

// Lists that are read in parts: paging.
func fifthPageCases() []labelled {
	return []labelled{
		{
			name: "ads", service: "jobs", pays: "paging",
			why: "search engines walk the pages of all advertisements to the last, and Spring Data skips up to 2,700 of them",
			colls: []coll{{name: "ads", n: 3000, indexes: []string{"posted"}, doc: func(g gen, i int) bson.D {
				return d("_id", uuid(20, i), "posted", at(i/2), "title", g.text(24), "city", g.city())
			}}},
			traffic: []requests{
				{90, func(s *session, i int) {
					s.spring("ads", bson.D{}, d("posted", -1), 20+i, 25, keep("title", "city"))
				}},
			},
		},
		{
			name: "plays", service: "podcast", pays: "paging",
			why: "a listener's history of thousands of plays is scrolled by skip, and some scroll far",
			colls: []coll{{name: "plays", n: 6000, indexes: []string{"listener,playedAt"}, doc: func(g gen, i int) bson.D {
				return d("_id", snow(2, i), "listener", int64(i%2), "playedAt", minute(i), "episode", oid(2, g.IntN(200)), "done",
					i%3 == 0)
			}}},
			traffic: []requests{
				{120, func(s *session, i int) {
					s.find("plays", d("listener", int64(i%2)), by{sort: d("playedAt", -1), skip: 900 + i*15, limit: 30})
				}},
			},
		},
		{
			name: "partidas", service: "chess", pays: "paging",
			why: "the archive of a tournament is paged by an aggregation that sorts and skips thousands of games",
			colls: []coll{{name: "partidas", n: 5000, indexes: []string{"event,played"}, doc: func(g gen, i int) bson.D {
				return d("_id", ulid("H", i), "event", i%2, "played", at(i), "white", g.name(), "black", g.name(), "result",
					g.of("1-0", "0-1"))
			}}},
			traffic: []requests{
				{120, func(s *session, i int) {
					s.prisma("partidas", d("event", i%2), d("played", -1), 1000+i*10, 20, d("white", 1, "black", 1, "result", 1))
				}},
			},
		},
		{
			name: "ziedojumi", service: "choir", pays: "paging",
			why: "the treasurer turns the pages of one year's donations, by date and amount, far behind the first thousand",
			colls: []coll{{name: "ziedojumi", n: 4000, indexes: []string{"gads,datums,summa"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(20, i), "gads", 2025, "datums", at(i/3), "summa", g.between(5, 900), "no", g.name())
			}}},
			traffic: []requests{
				{110, func(s *session, i int) {
					s.find("ziedojumi", d("gads", 2025), by{sort: d("datums", 1, "summa", 1), skip: 1100 + i*25, limit: 50})
				}},
			},
		},
		{
			name: "maombi", service: "embassy", pays: "paging",
			why: "a nightly export fetches 100 applications at a time by skip, so its last commands walk over all earlier ones",
			colls: []coll{{name: "maombi", n: 5000, doc: func(g gen, i int) bson.D {
				return d("_id", hex(4, i), "jina", g.name(), "aina", g.of("kazi", "utalii", "masomo"), "tarehe", at(i))
			}}},
			traffic: []requests{
				{3, func(s *session, _ int) {
					for skip := 0; skip < 5000; skip += 100 {
						s.find("maombi", bson.D{}, by{sort: d("_id", 1), skip: skip, limit: 100})
					}
				}},
			},
		},
		{
			name: "bilete", service: "lottery", pays: "paging",
			why: "the office pages through the tickets of a state by the date of a nested document, and reads to the end",
			colls: []coll{{name: "bilete", n: 5000, indexes: []string{"stare,extragere.data"}, doc: func(g gen, i int) bson.D {
				return d("_id", numbered("B", i), "stare", i%2, "extragere", d("data", at(i/4), "nr", i/40), "linie", g.text(12))
			}}},
			traffic: []requests{
				{120, func(s *session, i int) {
					s.find("bilete", d("stare", i%2), by{sort: d("extragere.data", -1), skip: 1020 + i*12, limit: 20})
				}},
			},
		},
		{
			name: "zendingen", service: "customs", pays: "paging",
			why: "the desk of two offices filters by $in and turns to page 150, where each find walks over 3,000 shipments",
			colls: []coll{{name: "zendingen", n: 6000, indexes: []string{"kantoor,aankomst"}, doc: func(g gen, i int) bson.D {
				return d("_id", numbered("Z", i), "kantoor", g.of("RTM", "AMS", "EIN"), "aankomst", minute(i*5), "colli",
					g.between(1, 90))
			}}},
			traffic: []requests{
				{110, func(s *session, i int) {
					s.find("zendingen", d("kantoor", d("$in", a{"RTM", "AMS"})),
						by{sort: d("aankomst", 1), skip: 1100 + i*20, limit: 20})
				}},
			},
		},
		{
			name: "volontaires", service: "circus",
			why: "the whole list has 220 entries, for which skip and limit are all it needs",
			colls: []coll{{name: "volontaires", n: 220, indexes: []string{"nom"}, doc: func(g gen, i int) bson.D {
				return d("_id", int32(i), "nom", g.name(), "ville", g.city(), "jours", g.between(1, 20))
			}}},
			traffic: []requests{
				{130, func(s *session, i int) { s.spring("volontaires", bson.D{}, d("nom", 1), i%10, 20, nil) }},
			},
		},
		{
			name: "recibos", service: "dentist",
			why: "there are thousands of receipts, but nobody opens more than the third page",
			colls: []coll{{name: "recibos", n: 5000, indexes: []string{"fecha"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(21, i), "fecha", at(i), "paciente", oid(4, g.IntN(400)), "céntimos", g.between(1000, 90_000))
			}}},
			traffic: []requests{
				{160, func(s *session, i int) {
					s.find("recibos", bson.D{}, by{sort: d("fecha", -1), skip: i % 3 * 20, limit: 20})
				}},
			},
		},
		{
			name: "tips", service: "kindergarten",
			why: "the page shows one song at random by skipping without an order, which no token can do",
			colls: []coll{{name: "tips", n: 2500, doc: func(g gen, i int) bson.D {
				return d("_id", oid(22, i), "lag", g.text(16), "texti", g.text(90))
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) { s.find("tips", bson.D{}, by{skip: s.between(1, 2400), limit: 1}) }},
			},
		},
		{
			name: "saved_searches", service: "jobs",
			why: "a job goes through the collection by the last _id it has seen, which is what pages by _id are",
			colls: []coll{{name: "saved_searches", n: 4000, doc: func(g gen, i int) bson.D {
				return d("_id", oid(23, i), "mail", g.text(14), "terms", g.text(20))
			}}},
			traffic: []requests{
				{4, func(s *session, _ int) {
					for last := any(bson.ObjectID{}); last != nil; {
						page := s.find("saved_searches", d("_id", d("$gt", last)), by{sort: d("_id", 1), limit: 100})
						last = nil
						if len(page) > 0 {
							last = page[len(page)-1]["_id"]
						}
					}
				}},
			},
		},
		{
			name: "broadcasts", service: "podcast",
			why: "one program reads the whole list by a cursor with batches, and never skips",
			colls: []coll{{name: "broadcasts", n: 3000, indexes: []string{"at"}, doc: func(g gen, i int) bson.D {
				return d("_id", uuid(21, i), "at", at(i), "channel", g.text(8))
			}}},
			traffic: []requests{
				{40, func(s *session, _ int) { s.stream("broadcasts", bson.D{}, d("at", 1), 500) }},
			},
		},
		{
			name: "tournaments", service: "chess", harm: "paging",
			why: "the list is sorted by the days of each tournament, an array, and a pager refuses such documents as unsortable",
			colls: []coll{{name: "tournaments", n: 3000, indexes: []string{"days"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(24, i), "name", g.text(14), "days", list(g.between(2, 5),
					func(j int) any { return at(i*24 + j*24) }))
			}}},
			traffic: []requests{
				{120, func(s *session, i int) {
					s.find("tournaments", bson.D{}, by{sort: d("days", 1), skip: 1000 + i*15, limit: 20})
				}},
			},
		},
	}
}
