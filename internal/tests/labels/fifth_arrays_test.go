package labels_test

import "go.mongodb.org/mongo-driver/v2/bson"

// Arrays that grow: outlier, subset.
func fifthArrayCases() []labelled {
	return []labelled{
		{
			name: "shows", service: "podcast", pays: "outlier", fine: "relation",
			why: "a show has a few dozen subscribers, five have 5,000, and each new episode loads the show with them to send it",
			colls: []coll{{name: "shows", n: 900, doc: func(g gen, i int) bson.D {
				return d("_id", uuid(1, i), "title", g.text(20), "feedUrl", "https://cast.example/"+key("f", i),
					"subscriberIds", list(rare(i, 180, 5000, g.near(45)), func(int) any { return int64(g.IntN(4_000_000)) }))
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) { s.one("shows", d("_id", uuid(1, s.IntN(900))), nil) }},
				{40, func(s *session, _ int) {
					s.update("shows", d("_id", uuid(1, s.IntN(900))), d("$addToSet", d("subscriberIds", int64(s.IntN(4_000_000)))))
				}},
			},
		},
		{
			name: "aangiften", service: "customs", pays: "outlier", fine: "relation",
			why: "a declaration has a dozen lines and is read whole at the desk, but eight of 1,600 are of couriers with 2,500 lines",
			colls: []coll{{name: "aangiften", n: 1600, indexes: []string{"mrn"}, doc: func(g gen, i int) bson.D {
				return d("_id", numbered("RTM", i), "mrn", key("24NL", i), "status", g.of("ingediend", "vrij", "controle"),
					"regels", list(rare(i, 200, 2500, 1+g.near(20)), func(j int) any {
						return d("nr", int32(j+1), "gs", g.between(1000, 9999), "kg", g.between(1, 900), "land", g.of("CN", "US", "TR"))
					}))
			}}},
			traffic: []requests{
				{150, func(s *session, _ int) { s.one("aangiften", d("mrn", key("24NL", s.IntN(1600))), nil) }},
				{40, func(s *session, i int) {
					s.update("aangiften", d("_id", numbered("RTM", s.IntN(1600))),
						d("$push", d("regels", d("nr", int32(3000+i), "gs", 4711, "kg", 12, "land", "CN"))))
				}},
			},
		},
		{
			name: "leikskólar", service: "kindergarten", pays: "outlier", fine: "relation",
			why: "most schools have some twenty children waiting, three of 600 have 4,000, and the office opens a school with its list",
			colls: []coll{{name: "leikskólar", n: 600, doc: func(g gen, i int) bson.D {
				return d("_id", oid(1, i), "nafn", g.text(14), "hverfi", g.city(), "biðlisti",
					list(rare(i, 200, 4000, g.near(40)), func(int) any { return key("kt", g.IntN(90_000)) }))
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) { s.one("leikskólar", d("_id", oid(1, s.IntN(600))), nil) }},
				{30, func(s *session, _ int) {
					s.update("leikskólar", d("_id", oid(1, s.IntN(600))), d("$push", d("biðlisti", key("kt", s.IntN(90_000)))))
				}},
				{10, func(s *session, _ int) {
					s.update("leikskólar", d("_id", oid(1, s.IntN(600))), d("$pull", d("biðlisti", key("kt", s.IntN(90_000)))))
				}},
			},
		},
		{
			name: "targets", service: "observatory", pays: "outlier", fine: "relation",
			why: "a star is observed twenty times, four standard stars 3,500 times, and the planner reads each target of a night whole",
			colls: []coll{{name: "targets", n: 800, indexes: []string{"night"}, doc: func(g gen, i int) bson.D {
				return d("_id", key("HD", i), "night", i%80, "ra", g.Float64()*24, "dec", g.Float64()*90,
					"exposures", list(rare(i, 200, 3500, g.near(40)), func(j int) any { return uuid(2, i*4000+j) }))
			}}},
			traffic: []requests{
				{140, func(s *session, _ int) { s.find("targets", d("night", s.IntN(80)), by{sort: d("ra", 1)}) }},
				{40, func(s *session, i int) {
					s.update("targets", d("_id", key("HD", s.IntN(800))), d("$push", d("exposures", uuid(3, i))))
				}},
			},
		},
		{
			name: "extrageri", service: "lottery", pays: "outlier",
			why: "a draw has a few winners, five draws with a birthday's numbers have 5,000, and the payout reads a draw whole",
			colls: []coll{{name: "extrageri", n: 1000, doc: func(g gen, i int) bson.D {
				return d("_id", at(i*24), "numere", list(6, func(int) any { return g.between(1, 49) }), "fond",
					cents(g.between(1000, 9_000_000)), "câștigători", list(rare(i, 200, 5000, g.near(25)), func(int) any {
						return d("bilet", int64(g.IntN(90_000_000)), "cat", g.between(1, 4))
					}))
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) { s.one("extrageri", d("_id", at(s.IntN(1000)*24)), nil) }},
				{30, func(s *session, _ int) {
					more := list(s.between(1, 5), func(int) any { return d("bilet", int64(s.IntN(90_000_000)), "cat", 3) })
					s.update("extrageri", d("_id", at(s.IntN(1000)*24)), d("$push", d("câștigători", d("$each", more))))
				}},
			},
		},
		{
			name: "openings", service: "chess", pays: "outlier", fine: "relation",
			why: "an opening was played thirty times by members, four of 800 in 4,000 games, and its study downloads it with all games",
			colls: []coll{{name: "openings", n: 800, indexes: []string{"eco"}, doc: func(g gen, i int) bson.D {
				return d("_id", int32(i), "eco", key("E", i/8), "moves", g.text(40),
					"games", list(rare(i, 200, 4000, g.near(60)), func(int) any { return ulid("G", g.IntN(900_000)) }))
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) { s.find("openings", d("eco", key("E", s.IntN(100))), by{}) }},
				{40, func(s *session, _ int) {
					s.update("openings", d("_id", int32(s.IntN(800))), d("$addToSet", d("games", ulid("G", s.IntN(900_000)))))
				}},
			},
		},
		{
			name: "répertoires", service: "choir", fine: "relation|subset",
			why: "each of the forty choirs has hundreds of pieces in its array, so there is no rare long list to put aside",
			colls: []coll{{name: "répertoires", n: 40, doc: func(g gen, i int) bson.D {
				return d("_id", int64(i), "koris", g.text(12), "skaņdarbi", list(g.between(400, 600), func(j int) any {
					return d("darbs", g.text(16), "gads", g.between(1600, 2020), "balsis", g.of("SATB", "SSA", "TTBB"))
				}))
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) { s.one("répertoires", d("_id", int64(s.IntN(40))), nil) }},
				{10, func(s *session, _ int) {
					s.update("répertoires", d("_id", int64(s.IntN(40))),
						d("$push", d("skaņdarbi", d("darbs", s.text(16), "gads", 2020, "balsis", "SATB"))))
				}},
			},
		},
		{
			name: "candidatures", service: "circus", fine: "relation", harm: "outlier",
			why: "the jury sets the state of single entries anywhere in the long lists all day, so these entries should be documents",
			colls: []coll{{name: "candidatures", n: 500, doc: func(g gen, i int) bson.D {
				return d("_id", hex(1, i), "concours", g.text(14), "inscrits", list(rare(i, 125, 2000, g.near(30)), func(j int) any {
					return d("n", int32(j), "artiste", g.name(), "état", g.of("reçu", "refusé"), "note", g.IntN(20))
				}))
			}}},
			traffic: []requests{
				{60, func(s *session, _ int) { s.one("candidatures", d("_id", hex(1, s.IntN(500))), nil) }},
				{240, func(s *session, i int) {
					s.patch("candidatures", d("_id", hex(1, []int{41, 166, 291, 416}[i%4])),
						d("$set", d("inscrits.$[x].état", "admis", "inscrits.$[x].note", s.IntN(20))), d("x.n", int32(s.IntN(2000))))
				}},
			},
		},
		{
			name: "groepen", service: "customs", fine: "relation", harm: "outlier",
			why: "nobody reads the lists, all queries ask which groups hold an importer, and these would not see what was moved out",
			colls: []coll{{name: "groepen", n: 700, indexes: []string{"leden"}, doc: func(g gen, i int) bson.D {
				return d("_id", key("GR", i), "naam", g.text(12), "leden",
					list(rare(i, 175, 3000, g.near(30)), func(int) any { return int64(g.IntN(20_000)) }))
			}}},
			traffic: []requests{
				{200, func(s *session, _ int) {
					s.find("groepen", d("leden", int64(s.IntN(20_000))), by{fields: keep("naam"), sort: d("naam", 1)})
				}},
				{10, func(s *session, _ int) {
					s.update("groepen", d("_id", key("GR", s.IntN(700))), d("$addToSet", d("leden", int64(s.IntN(20_000)))))
				}},
			},
		},
		{
			name: "visados", service: "embassy",
			why: "a visa keeps its last 25 changes by $slice in the $push, so its array is bounded",
			colls: []coll{{name: "visados", n: 900, doc: func(g gen, i int) bson.D {
				return d("_id", uuid(4, i), "msafiri", g.name(), "historia", list(g.between(5, 25), func(j int) any {
					return d("lini", at(i+j), "hali", g.of("imepokelewa", "imekubaliwa", "imekataliwa"))
				}))
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) { s.one("visados", d("_id", uuid(4, s.IntN(900))), nil) }},
				{80, func(s *session, i int) {
					entry := a{d("lini", minute(i), "hali", "imekubaliwa")}
					s.update("visados", d("_id", uuid(4, s.IntN(900))),
						d("$push", d("historia", d("$each", entry, "$slice", -25))))
				}},
			},
		},
		{
			name: "diagrams", service: "chess",
			why: "a board has 64 squares in its array, always, and is read and written whole",
			colls: []coll{{name: "diagrams", n: 1500, doc: func(g gen, i int) bson.D {
				return d("_id", ulid("D", i), "title", g.text(14), "board", list(64, func(int) any {
					return g.of("", "P", "n", "K",
						"q")
				}))
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) { s.one("diagrams", d("_id", ulid("D", s.IntN(1500))), nil) }},
				{40, func(s *session, _ int) {
					s.save("diagrams", d("_id", ulid("D", s.IntN(1500)), "title", s.text(14),
						"board", list(64, func(int) any { return s.of("", "P", "n", "K") })))
				}},
			},
		},
		{
			name: "helmets", service: "bikeshare",
			why: "a shop has at most a dozen sizes, and no array ever gets long",
			colls: []coll{{name: "helmets", n: 1000, doc: func(g gen, i int) bson.D {
				return d("_id", int64(i), "butik", g.city(), "størrelser", list(g.between(1, 12), func(j int) any {
					return d("cm", 50+j, "antal", g.IntN(9))
				}))
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) { s.one("helmets", d("_id", int64(s.IntN(1000))), nil) }},
				{30, func(s *session, _ int) {
					s.patch("helmets", d("_id", int64(s.IntN(1000))), d("$inc", d("størrelser.$[e].antal", 1)), d("e.cm", 50))
				}},
			},
		},
		{
			name: "episodes", service: "podcast", pays: "subset",
			why: "the player shows the newest five of hundreds of comments by $slice, and a comment is rare beside the plays",
			colls: []coll{{name: "episodes", n: 200, doc: func(g gen, i int) bson.D {
				return d("_id", oid(2, i), "title", g.text(30), "audioUrl", g.text(40), "comments",
					list(g.between(100, 250), func(j int) any {
						return d("id", oid(3, i*300+j), "by", g.name(), "body", g.text(150), "postedAt", at(i+j))
					}))
			}}},
			traffic: []requests{
				{220, func(s *session, _ int) {
					s.one("episodes", d("_id", oid(2, s.IntN(200))), d("comments", d("$slice", -5)))
				}},
				{8, func(s *session, i int) {
					s.update("episodes", d("_id", oid(2, s.IntN(200))), d("$push", d("comments",
						d("id", oid(3, 90_000+i), "by", s.name(), "body", s.text(150), "postedAt", minute(i)))))
				}},
			},
		},
		{
			name: "employers", service: "jobs", pays: "subset",
			why: "each advertisement shows the employer with the last three of a hundred reviews, cut by an aggregation",
			colls: []coll{{name: "employers", n: 250, doc: func(g gen, i int) bson.D {
				return d("_id", key("emp", i), "name", g.text(14), "city", g.city(), "reviews",
					list(g.between(60, 180), func(j int) any {
						return d("stars", g.between(1, 5), "pros", g.text(80), "cons", g.text(80), "at", at(i*7+j))
					}))
			}}},
			traffic: []requests{
				{220, func(s *session, _ int) {
					s.aggregate("employers", match("_id", key("emp", s.IntN(250))),
						project("name", 1, "city", 1, "reviews", d("$slice", a{"$reviews", -3})))
				}},
				{6, func(s *session, i int) {
					s.update("employers", d("_id", key("emp", s.IntN(250))), d("$push", d("reviews",
						d("stars", 4, "pros", s.text(80), "cons", s.text(80), "at", minute(i)))))
				}},
			},
		},
		{
			name: "pacientes", service: "dentist", pays: "subset", fine: "bucket",
			why: "the desk sees a patient with the last two visits, while the array has all visits of a life with their notes",
			colls: []coll{{name: "pacientes", n: 400, indexes: []string{"documento"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(4, i), "documento", key("DNI", i), "nombre", g.name(), "visitas",
					list(g.between(40, 120), func(j int) any {
						return d("día", at(i+j*700), "diente", g.between(11, 48), "nota", g.text(160), "céntimos", g.between(2000, 90_000))
					}))
			}}},
			traffic: []requests{
				{220, func(s *session, _ int) {
					s.one("pacientes", d("documento", key("DNI", s.IntN(400))), d("nombre", 1, "visitas", d("$slice", -2)))
				}},
				{8, func(s *session, i int) {
					s.update("pacientes", d("documento", key("DNI", s.IntN(400))), d("$push", d("visitas",
						d("día", minute(i), "diente", 21, "nota", s.text(160), "céntimos", 4000))))
				}},
			},
		},
		{
			name: "numéros", service: "circus", pays: "subset",
			why: "the poster shows the three best of two hundred critiques of an act, sorted anew for each reader",
			colls: []coll{{name: "numéros", n: 120, doc: func(g gen, i int) bson.D {
				return d("_id", int32(i), "titre", g.text(16), "critiques", list(g.between(150, 250), func(j int) any {
					return d("_id", oid(5, i*300+j), "note", g.between(1, 100), "journal", g.text(10), "texte", g.text(120))
				}))
			}}},
			traffic: []requests{
				{200, func(s *session, _ int) {
					sorted := d("$sortArray", d("input", "$critiques", "sortBy", d("note", -1)))
					s.aggregate("numéros", match("_id", int32(s.IntN(120))), project("titre", 1, "critiques", d("$slice", a{sorted, 3})))
				}},
				{6, func(s *session, i int) {
					s.update("numéros", d("_id", int32(s.IntN(120))), d("$push", d("critiques",
						d("_id", oid(5, 90_000+i), "note", 70, "journal", s.text(10), "texte", s.text(120)))))
				}},
			},
		},
		{
			name: "skladišča", service: "sawmill", pays: "subset", fine: "bucket",
			why: "movements are pushed to the front, the yard shows the first ten of hundreds, and most requests only show them",
			colls: []coll{{name: "skladišča", n: 90, doc: func(g gen, i int) bson.D {
				return d("_id", key("SK", i), "kraj", g.city(), "premiki", list(g.between(200, 500), func(j int) any {
					return d("čas", at(9000-j*3), "les", g.of("smreka", "bukev", "hrast"), "kubik", g.money(), "opomba", g.text(70))
				}))
			}}},
			traffic: []requests{
				{210, func(s *session, _ int) {
					s.find("skladišča", d("_id", key("SK", s.IntN(90))), by{fields: d("premiki", d("$slice", 10))})
				}},
				{7, func(s *session, i int) {
					newest := a{d("čas", at(9100+i), "les", "bukev", "kubik", s.money(), "opomba", s.text(70))}
					s.update("skladišča", d("_id", key("SK", s.IntN(90))),
						d("$push", d("premiki", d("$each", newest, "$position", 0))))
				}},
			},
		},
		{
			name: "rooms", service: "kindergarten", pays: "subset", fine: "relation",
			why: "the parents' page shows each room of a house with its three newest messages, joined and sorted for each reader",
			colls: []coll{
				{name: "rooms", n: 60, indexes: []string{"house"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(6, i), "house", i%10, "name", g.text(10))
				}},
				{name: "room_messages", n: 6000, indexes: []string{"room,sent"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(7, i), "room", oid(6, i%60), "sent", at(i), "from", g.name(), "text", g.text(90))
				}},
			},
			traffic: []requests{
				{200, func(s *session, _ int) {
					newest := a{match("$expr", d("$eq", a{"$room", "$$r"})), d("$sort", d("sent", -1)), d("$limit", 3)}
					s.aggregate("rooms", match("house", s.IntN(10)),
						d("$lookup", d("from", "room_messages", "let", d("r", "$_id"), "pipeline", newest, "as", "messages")))
				}},
				{4, func(s *session, i int) {
					s.insert("room_messages", d("_id", oid(7, 10_000+i), "room", oid(6, i), "sent", minute(i), "from", s.name(), "text",
						s.text(90)))
				}},
			},
		},
		{
			name: "members", service: "choir",
			why: "the newest three of at most twenty small rehearsals of a season are no array to split",
			colls: []coll{{name: "members", n: 800, doc: func(g gen, i int) bson.D {
				return d("_id", int64(i), "vārds", g.name(), "mēģinājumi", list(g.between(4, 20), func(j int) any {
					return d("d", int32(j), "bija", g.IntN(2) == 1)
				}))
			}}},
			traffic: []requests{
				{150, func(s *session, _ int) {
					s.one("members", d("_id", int64(s.IntN(800))), d("mēģinājumi", d("$slice", -3)))
				}},
				{5, func(s *session, i int) {
					s.update("members", d("_id", int64(s.IntN(800))), d("$push", d("mēģinājumi", d("d", int32(20+i), "bija", true))))
				}},
			},
		},
		{
			name: "docks", service: "bikeshare", harm: "subset", fine: "bucket|outlier",
			why: "a dock pushes events more often than anybody looks at the newest, and each push would be a transaction",
			colls: []coll{{name: "docks", n: 150, doc: func(g gen, i int) bson.D {
				return d("_id", key("ST", i), "vej", g.text(14), "hændelser", list(g.between(100, 300), func(j int) any {
					return d("t", at(j*3+i), "slags", g.of("ind", "ud", "fejl"), "cykel", int32(g.IntN(2000)))
				}))
			}}},
			traffic: []requests{
				{60, func(s *session, _ int) {
					s.one("docks", d("_id", key("ST", s.IntN(150))), d("hændelser", d("$slice", -5)))
				}},
				{500, func(s *session, i int) {
					s.update("docks", d("_id", key("ST", s.IntN(150))),
						d("$push", d("hændelser", d("t", minute(i), "slags", "ind", "cykel", int32(s.IntN(2000))))))
				}},
			},
		},
		{
			name: "puzzles", service: "chess", harm: "subset",
			why: "the best twenty of a theme change with every vote, and an index on theme and votes gives them at once",
			colls: []coll{{name: "puzzles", n: 3000, indexes: []string{"theme,votes"}, doc: func(g gen, i int) bson.D {
				return d("_id", ulid("P", i), "theme", i%30, "votes", g.between(-50, 4000), "fen", g.text(50))
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) {
					s.find("puzzles", d("theme", s.IntN(30)), by{sort: d("votes", -1), limit: 20})
				}},
				{300, func(s *session, _ int) { s.raise("puzzles", ulid("P", s.IntN(3000)), "votes", 2*s.IntN(2)-1) }},
			},
		},
		{
			name: "presets", service: "podcast",
			why: "the last listening positions are bounded by $slice in each $push, which is the subset that nobody needs to keep",
			colls: []coll{{name: "presets", n: 900, doc: func(g gen, i int) bson.D {
				return d("_id", uuid(5, i), "device", g.text(12), "recent", list(10, func(j int) any {
					return d("episode", oid(2, g.IntN(200)), "second", g.IntN(4000))
				}))
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) { s.one("presets", d("_id", uuid(5, s.IntN(900))), nil) }},
				{130, func(s *session, _ int) {
					entry := a{d("episode", oid(2, s.IntN(200)), "second", s.IntN(4000))}
					s.update("presets", d("_id", uuid(5, s.IntN(900))), d("$push", d("recent", d("$each", entry, "$slice", -10))))
				}},
			},
		},
	}
}
