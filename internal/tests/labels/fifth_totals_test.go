package labels_test

import "go.mongodb.org/mongo-driver/v2/bson"

// Numbers: computed, approx.
func fifthTotalCases() []labelled {
	return []labelled{
		{
			name: "klātbūtne", service: "choir", pays: "computed",
			why: "each view of a choir counts its hundreds of attendances again, and a new one comes once for fifty views",
			colls: []coll{
				{name: "klātbūtne", n: 4000, indexes: []string{"koris"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(30, i), "koris", int64(i%20), "dziedātājs", g.IntN(900), "minūtes", g.between(30, 150))
				}},
				{name: "kori", n: 20, doc: func(g gen, i int) bson.D {
					return d("_id", int64(i), "vārds", g.text(12), "pilsēta", g.city())
				}},
			},
			traffic: []requests{
				{220, func(s *session, _ int) {
					i := int64(s.IntN(20))
					s.one("kori", d("_id", i), nil)
					s.aggregate("klātbūtne", match("koris", i), group("_id", "$koris", "reizes", d("$sum", 1), "minūtes",
						d("$sum", "$minūtes")))
				}},
				{4, func(s *session, i int) {
					s.insert("klātbūtne", d("_id", oid(30, 9000+i), "koris", int64(i), "dziedātājs", i, "minūtes", 90))
				}},
			},
		},
		{
			name: "ture", service: "bikeshare", pays: "computed",
			why: "the sign at a station asks for number and mean of its trips every few seconds, and trips end far more rarely",
			colls: []coll{
				{name: "ture", n: 5000, indexes: []string{"fra"}, doc: func(g gen, i int) bson.D {
					return d("_id", snow(3, i), "fra", key("S", i%40), "minutter", g.between(2, 90), "cykel", int32(g.IntN(600)))
				}},
				{name: "stationer", n: 40, doc: func(g gen, i int) bson.D {
					return d("_id", key("S", i), "vej", g.text(14), "pladser", g.between(8, 40))
				}},
			},
			traffic: []requests{
				{300, func(s *session, _ int) {
					s.aggregate("ture", match("fra", key("S", s.IntN(40))),
						group("_id", nil, "antal", d("$sum", 1), "snit", d("$avg", "$minutter")))
				}},
				{5, func(s *session, i int) {
					s.insert("ture", d("_id", snow(3, 9000+i), "fra", key("S", i), "minutter", 12, "cykel", int32(5)))
				}},
			},
		},
		{
			name: "greiðslur", service: "kindergarten", pays: "computed",
			why: "the parents' start page adds up all payments of a household, some of which are void, and a payment is monthly",
			colls: []coll{
				{name: "greiðslur", n: 4500, indexes: []string{"heimili"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(31, i), "heimili", oid(32, i%50), "krónur", g.between(1000, 60_000), "ógilt", i%19 == 0)
				}},
				{name: "heimili", n: 50, doc: func(g gen, i int) bson.D {
					return d("_id", oid(32, i), "nafn", g.name(), "gata", g.text(12))
				}},
			},
			traffic: []requests{
				{220, func(s *session, _ int) {
					s.aggregate("greiðslur", match("heimili", oid(32, s.IntN(50)), "ógilt", false),
						group("_id", "$heimili", "krónur", d("$sum", "$krónur")))
				}},
				{4, func(s *session, i int) {
					s.insert("greiðslur", d("_id", oid(31, 9000+i), "heimili", oid(32, i), "krónur", 20_000, "ógilt", false))
				}},
			},
		},
		{
			name: "points", service: "chess", pays: "computed",
			why: "each profile shows a player's games by year, which all readers group again from two hundred results",
			colls: []coll{
				{name: "points", n: 5000, indexes: []string{"player"}, doc: func(g gen, i int) bson.D {
					return d("_id", ulid("R", i), "player", key("pl", i%25), "year", 2010+i/25%16, "half", g.IntN(3))
				}},
				{name: "players", n: 25, doc: func(g gen, i int) bson.D {
					return d("_id", key("pl", i), "name", g.name(), "title", g.of("GM", "IM", "FM"))
				}},
			},
			traffic: []requests{
				{220, func(s *session, _ int) {
					s.aggregate("points", match("player", key("pl", s.IntN(25))),
						group("_id", "$year", "games", d("$sum", 1), "half", d("$sum", "$half")), d("$sort", d("_id", 1)))
				}},
				{4, func(s *session, i int) {
					s.insert("points", d("_id", ulid("R", 9000+i), "player", key("pl", i), "year", 2026, "half", 2))
				}},
			},
		},
		{
			name: "importeurs", service: "customs", pays: "computed",
			why: "each page of an importer joins hundreds of duties only to add them up, and a new duty is rare beside the pages",
			colls: []coll{
				{name: "importeurs", n: 30, doc: func(g gen, i int) bson.D {
					return d("_id", key("EORI", i), "naam", g.text(14), "plaats", g.city())
				}},
				{name: "rechten", n: 4500, indexes: []string{"importeur"}, doc: func(g gen, i int) bson.D {
					return d("_id", numbered("R", i), "importeur", key("EORI", i%30), "cent", g.between(100, 900_000), "datum", at(i))
				}},
			},
			traffic: []requests{
				{180, func(s *session, _ int) {
					s.aggregate("importeurs", match("_id", key("EORI", s.IntN(30))), join("rechten", "_id", "importeur", "r"),
						project("naam", 1, "plaats", 1, "cent", d("$sum", "$r.cent")))
				}},
				{4, func(s *session, i int) {
					s.insert("rechten", d("_id", numbered("R", 9000+i), "importeur", key("EORI", i), "cent", 4000, "datum", minute(i)))
				}},
			},
		},
		{
			name: "ratings", service: "podcast", pays: "computed",
			why: "the start page computes mean and number of the ratings of twenty shows for each visitor",
			colls: []coll{
				{name: "ratings", n: 6000, indexes: []string{"show"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(33, i), "show", int32(i%60), "stars", g.between(1, 5), "by", snow(4, i))
				}},
				{name: "featured", n: 60, doc: func(g gen, i int) bson.D {
					return d("_id", int32(i), "title", g.text(18), "rank", i)
				}},
			},
			traffic: []requests{
				{200, func(s *session, _ int) {
					first := s.IntN(40)
					s.aggregate("ratings", match("show", d("$in", list(20, func(i int) any { return int32(first + i) }))),
						group("_id", "$show", "mean", d("$avg", "$stars"), "n", d("$sum", 1)))
				}},
				{4, func(s *session, i int) {
					s.insert("ratings", d("_id", oid(33, 9000+i), "show", int32(i), "stars", 4, "by", snow(4, 9000+i)))
				}},
			},
		},
		{
			name: "applications", service: "jobs", pays: "computed",
			why: "each view of a posting counts its applications by countDocuments, two hundred keys for one number",
			colls: []coll{
				{name: "applications", n: 6000, indexes: []string{"posting"}, doc: func(g gen, i int) bson.D {
					return d("_id", uuid(30, i), "posting", oid(34, i%30), "person", g.name(), "sent", at(i))
				}},
				{name: "postings", n: 30, doc: func(g gen, i int) bson.D {
					return d("_id", oid(34, i), "title", g.text(20), "salary", g.between(20, 90)*1000)
				}},
			},
			traffic: []requests{
				{220, func(s *session, _ int) { s.count("applications", d("posting", oid(34, s.IntN(30)))) }},
				{4, func(s *session, i int) {
					s.insert("applications", d("_id", uuid(31, i), "posting", oid(34, i), "person", s.name(), "sent", minute(i)))
				}},
			},
		},
		{
			name: "frames", service: "observatory", pays: "computed",
			why: "the log of a night shows worst, best and mean seeing of its hundreds of frames, which are taken once",
			colls: []coll{
				{name: "frames", n: 4800, indexes: []string{"night"}, doc: func(g gen, i int) bson.D {
					return d("_id", uuid(32, i), "night", key("n", i%24), "seeing", 0.4+g.Float64(), "airmass", 1+g.Float64())
				}},
				{name: "nights", n: 24, doc: func(g gen, i int) bson.D {
					return d("_id", key("n", i), "observer", g.name(), "clouds", g.IntN(8))
				}},
			},
			traffic: []requests{
				{200, func(s *session, _ int) {
					s.aggregate("frames", match("night", key("n", s.IntN(24))), group("_id", "$night",
						"worst", d("$max", "$seeing"), "best", d("$min", "$seeing"), "mean", d("$avg", "$seeing")))
				}},
				{3, func(s *session, i int) {
					s.insert("frames", d("_id", uuid(33, i), "night", key("n", i), "seeing", 0.9, "airmass", 1.2))
				}},
			},
		},
		{
			name: "izrez", service: "sawmill", harm: "computed",
			why: "a saw adds cuts five times as often as somebody asks for the sum, and each would be a transaction more",
			colls: []coll{
				{name: "izrez", n: 2500, indexes: []string{"žaga"}, doc: func(g gen, i int) bson.D {
					return d("_id", snow(5, i), "žaga", int32(i%8), "kubik", g.between(1, 90))
				}},
				{name: "žage", n: 8, doc: func(g gen, i int) bson.D {
					return d("_id", int32(i), "ime", g.text(10), "moč",
						g.between(10, 90))
				}},
			},
			traffic: []requests{
				{70, func(s *session, _ int) {
					s.aggregate("izrez", match("žaga", int32(s.IntN(8))), group("_id", "$žaga", "kubik", d("$sum", "$kubik")))
				}},
				{350, func(s *session, i int) {
					s.insert("izrez", d("_id", snow(5, 9000+i), "žaga", int32(i%8), "kubik", s.between(1, 90)))
				}},
			},
		},
		{
			name: "entrées", service: "circus",
			why: "each report sums up another range of days, and a value that is kept for a target cannot know the range",
			colls: []coll{
				{name: "entrées", n: 4000, indexes: []string{"chapiteau,jour"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(35, i), "chapiteau", int32(i%4), "jour", at(i/4*24), "visiteurs", g.between(50, 900))
				}},
				{name: "chapiteaux", n: 4, doc: func(g gen, i int) bson.D {
					return d("_id", int32(i), "nom", g.text(10), "places", g.between(300, 2000))
				}},
			},
			fine: "bucket|series",
			traffic: []requests{
				{150, func(s *session, _ int) {
					from := s.IntN(900)
					s.aggregate("entrées", match("chapiteau", int32(s.IntN(4)), "jour",
						d("$gte", at(from*24), "$lt", at((from+s.between(3, 60))*24))), group("_id", nil, "visiteurs",
						d("$sum", "$visiteurs")))
				}},
			},
		},
		{
			name: "factures_lignes", service: "dentist",
			why: "the sum is over the few lines inside the bill itself, which the read needs anyway",
			colls: []coll{{name: "factures_lignes", n: 1500, doc: func(g gen, i int) bson.D {
				return d("_id", oid(36, i), "paciente", oid(4, g.IntN(400)), "líneas", list(g.between(1, 6), func(int) any {
					return d("acto", g.text(10), "céntimos", g.between(1000, 50_000))
				}))
			}}},
			traffic: []requests{
				{150, func(s *session, _ int) {
					s.aggregate("factures_lignes", match("_id", oid(36, s.IntN(1500))),
						project("paciente", 1, "líneas", 1, "total", d("$sum", "$líneas.céntimos")))
				}},
			},
		},
		{
			name: "kura", service: "embassy",
			why: "a matter has two or three votes, so the sum at each read costs no more than the stored one would",
			colls: []coll{
				{name: "kura", n: 2400, indexes: []string{"jambo"}, doc: func(g gen, i int) bson.D {
					return d("_id", hex(5, i), "jambo", hex(6, i%1000), "kura", g.IntN(2))
				}},
				{name: "mambo", n: 1000, doc: func(g gen, i int) bson.D { return d("_id", hex(6, i), "kichwa", g.text(20)) }},
			},
			traffic: []requests{
				{150, func(s *session, _ int) {
					s.aggregate("kura", match("jambo", hex(6, s.IntN(1000))), group("_id", "$jambo", "ndiyo", d("$sum", "$kura")))
				}},
				{30, func(s *session, i int) {
					s.insert("kura", d("_id", hex(5, 9000+i), "jambo", hex(6, s.IntN(1000)), "kura", 1))
				}},
			},
		},
		{
			name: "statistikk", service: "kindergarten",
			why: "once a month the municipality asks for all counts at one time, a report that nobody waits for",
			colls: []coll{{name: "statistikk", n: 3000, indexes: []string{"barn"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(37, i), "barn", oid(14, i%400), "avdeling", g.text(6), "timer", g.between(2, 9))
			}}},
			traffic: []requests{
				{2, func(s *session, _ int) {
					s.aggregate("statistikk", group("_id", "$avdeling", "timer", d("$sum", "$timer")))
				}},
				{120, func(s *session, _ int) { s.find("statistikk", d("barn", oid(14, s.IntN(400))), by{}) }},
			},
		},
		{
			name: "episode_counters", service: "podcast", pays: "approx",
			why: "a news episode is downloaded 150 times a second, each raises one document, and the page shows thousands",
			colls: []coll{{name: "episode_counters", n: 200, doc: func(g gen, i int) bson.D {
				return d("_id", oid(2, i), "downloads", int64(g.between(0, 900_000)), "firstAt", at(i))
			}}},
			traffic: []requests{
				{9000, func(s *session, _ int) { s.raise("episode_counters", oid(2, 7), "downloads", 1) }},
				{400, func(s *session, _ int) { s.raise("episode_counters", oid(2, s.IntN(200)), "downloads", 1) }},
				{60, func(s *session, _ int) { s.one("episode_counters", d("_id", oid(2, s.IntN(200))), nil) }},
			},
		},
		{
			name: "app_visninger", service: "bikeshare", pays: "approx",
			why: "each view of the map raises the document of its day, found by the day and not by _id, 140 times a second",
			colls: []coll{{name: "app_visninger", n: 90, indexes: []string{"dag"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(38, i), "dag", at(i*24), "visninger", g.between(0, 90_000))
			}}},
			traffic: []requests{
				{8400, func(s *session, _ int) { s.update("app_visninger", d("dag", at(89*24)), d("$inc", d("visninger", 1))) }},
				{40, func(s *session, _ int) { s.one("app_visninger", d("dag", at(s.IntN(90)*24)), nil) }},
			},
		},
		{
			name: "pagini", service: "lottery", pays: "approx",
			why: "after a draw the page of results is upserted for each of 150 views a second, a number that only editors look at",
			colls: []coll{{name: "pagini", n: 60, doc: func(g gen, i int) bson.D {
				return d("_id", "/pagina/"+key("p", i), "st", d("afișări", g.between(0, 90_000), "erori", g.IntN(40)))
			}}},
			traffic: []requests{
				{9000, func(s *session, _ int) {
					s.upsert("pagini", d("_id", "/pagina/"+key("p", 1)), d("$inc", d("st.afișări", 1)))
				}},
				{300, func(s *session, _ int) {
					s.upsert("pagini", d("_id", "/pagina/"+key("p", s.IntN(60))), d("$inc", d("st.afișări", 1)))
				}},
				{20, func(s *session, _ int) { s.one("pagini", d("_id", "/pagina/"+key("p", s.IntN(60))), nil) }},
			},
		},
		{
			name: "aplauze", service: "lottery", pays: "approx",
			why: "viewers of a live draw tap a heart, a findOneAndUpdate on one document 130 times a second, shown as a round number",
			colls: []coll{{name: "aplauze", n: 30, doc: func(g gen, i int) bson.D {
				return d("_id", uuid(34, i), "emisiune", at(i*168), "inimi", g.between(0, 90_000))
			}}},
			traffic: []requests{
				{7800, func(s *session, _ int) { s.findAndUpdate("aplauze", d("_id", uuid(34, 29)), d("$inc", d("inimi", 1))) }},
				{40, func(s *session, _ int) { s.one("aplauze", d("_id", uuid(34, s.IntN(30))), keep("inimi")) }},
			},
		},
		{
			name: "brugere_dag", service: "bikeshare", pays: "approx",
			why: "a day has the set of its 3,000 riders only to show how many there were, which Distinct tells from ten kilobytes",
			colls: []coll{{name: "brugere_dag", n: 25, doc: func(g gen, i int) bson.D {
				return d("_id", at(i*24), "by", "Aarhus", "brugere", list(g.between(2500, 3500),
					func(j int) any { return snow(i, j*13) }))
			}}},
			traffic: []requests{
				{600, func(s *session, i int) {
					s.update("brugere_dag", d("_id", at(24*24)), d("$addToSet", d("brugere", snow(99, i))))
				}},
				{60, func(s *session, _ int) {
					s.aggregate("brugere_dag", match("_id", at(s.IntN(25)*24)), project("by", 1, "antal", d("$size", "$brugere")))
				}},
			},
		},
		{
			name: "stoc_bilete", service: "lottery", harm: "approx",
			why: "the tickets left are guarded and taken one by one 120 times a second, and a stock must be exact",
			colls: []coll{{name: "stoc_bilete", n: 10, doc: func(g gen, i int) bson.D {
				return d("_id", key("joc", i), "rămase", 900_000, "preț", g.between(2, 20))
			}}},
			traffic: []requests{
				{7200, func(s *session, _ int) {
					s.update("stoc_bilete", d("_id", key("joc", 3), "rămase", d("$gte", 1)), d("$inc", d("rămase", -1)))
				}},
				{40, func(s *session, _ int) { s.one("stoc_bilete", d("_id", key("joc", s.IntN(10))), nil) }},
			},
		},
		{
			name: "løbenumre", service: "bikeshare", harm: "approx",
			why: "each trip takes the next number from one document and needs exactly that one, 110 times a second",
			colls: []coll{{name: "løbenumre", n: 4, doc: func(g gen, i int) bson.D {
				return d("_id", []string{"tur", "faktura", "sag", "kort"}[i], "sidste", int64(1000*i))
			}}},
			traffic: []requests{
				{6600, func(s *session, _ int) { s.next("løbenumre", d("_id", "tur"), d("$inc", d("sidste", 1))) }},
			},
		},
		{
			name: "jackpoturi", service: "lottery", harm: "approx",
			why: "a share of each ticket goes into the pot, which is money of another amount each time",
			colls: []coll{{name: "jackpoturi", n: 5, doc: func(g gen, i int) bson.D {
				return d("_id", int32(i), "bani", int64(g.between(1000, 9_000_000)))
			}}},
			traffic: []requests{
				{7000, func(s *session, _ int) { s.raise("jackpoturi", int32(2), "bani", s.between(10, 400)) }},
				{30, func(s *session, _ int) { s.one("jackpoturi", d("_id", int32(2)), nil) }},
			},
		},
		{
			name: "likes", service: "podcast",
			why: "the likes are spread over thousands of clips, none of which gets one a second, so no document is hot",
			colls: []coll{{name: "likes", n: 2500, doc: func(g gen, i int) bson.D {
				return d("_id", uuid(35, i), "clip", g.text(20), "likes", g.IntN(900))
			}}},
			traffic: []requests{
				{1200, func(s *session, _ int) { s.raise("likes", uuid(35, s.IntN(2500)), "likes", 1) }},
				{60, func(s *session, _ int) { s.one("likes", d("_id", uuid(35, s.IntN(2500))), nil) }},
			},
		},
		{
			name: "trafik_time", service: "bikeshare",
			why: "a counter on the bridge sends what it has collected twice a second, and adds some dozens in one write",
			colls: []coll{{name: "trafik_time", n: 48, doc: func(g gen, i int) bson.D {
				return d("_id", at(i), "cykler", g.between(100, 4000))
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) { s.raise("trafik_time", at(47), "cykler", s.between(20, 60)) }},
				{60, func(s *session, _ int) { s.one("trafik_time", d("_id", at(s.IntN(48))), nil) }},
			},
		},
	}
}
