package labels_test

import (
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Sums and counters: computed, approx, and what must not be either.
func secondNumberCases() []labelled {
	return []labelled{
		{
			name: "productions", service: "theatre", pays: "computed",
			why: "each visit of a production's page adds up its 150 bookings, which change a few times a day",
			colls: []coll{
				{name: "productions", n: 40, doc: func(g gen, i int) bson.D { return d("_id", i, "titre", g.text(24)) }},
				{name: "reservations", n: 6000, indexes: []string{"production"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(60, i), "production", i%40, "places", g.between(1, 6), "montant", g.between(1000, 9000))
				}},
			},
			traffic: []requests{
				{160, func(s *session, _ int) {
					n := s.IntN(40)
					s.one("productions", d("_id", n), nil)
					s.aggregate("reservations", match("production", n),
						d("$group", d("_id", "$production", "places", d("$sum", "$places"), "montant", d("$sum", "$montant"))))
				}},
				{5, func(s *session, i int) {
					s.insert("reservations", d("_id", oid(61, i), "production", s.IntN(40), "places", 2, "montant", 4000))
				}},
			},
		},
		{
			name: "velos", service: "rental", pays: "computed",
			why: "the mean and the number of a bike's opinions are grouped for every reader, and opinions are rare",
			colls: []coll{
				{name: "velos", n: 50, doc: func(g gen, i int) bson.D { return d("_id", uuid(33, i), "modele", g.text(10)) }},
				{name: "avis", n: 6000, indexes: []string{"veloId"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(62, i), "veloId", uuid(33, i%50), "note", g.between(1, 5), "texte", g.text(40))
				}},
			},
			traffic: []requests{
				{150, func(s *session, _ int) {
					n := s.IntN(50)
					s.one("velos", d("_id", uuid(33, n)), nil)
					s.aggregate("avis", match("veloId", uuid(33, n)),
						d("$group", d("_id", "$veloId", "moyenne", d("$avg", "$note"), "nombre", d("$sum", 1))))
				}},
				{5, func(s *session, i int) {
					s.insert("avis", d("_id", oid(63, i), "veloId", uuid(33, s.IntN(50)), "note", 4, "texte", s.text(40)))
				}},
			},
		},
		{
			name: "herden", service: "farm", pays: "computed", fine: "extref|relation",
			why: "a herd's page joins 200 milkings only to add up their litres, all day, and milkings are entered once a day",
			colls: []coll{
				{name: "herden", n: 30, doc: func(g gen, i int) bson.D { return d("_id", key("H", i), "rasse", g.text(10)) }},
				{name: "gemelke", n: 6000, indexes: []string{"herde"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(64, i), "herde", key("H", i%30), "liter", g.between(5, 30), "fett", g.Float64())
				}},
			},
			traffic: []requests{
				{120, func(s *session, _ int) {
					s.aggregate("herden", match("_id", key("H", s.IntN(30))), join("gemelke", "_id", "herde", "g"),
						d("$project", d("rasse", 1, "liter", d("$sum", "$g.liter"))))
				}},
				{3, func(s *session, i int) {
					s.insert("gemelke", d("_id", oid(65, i), "herde", key("H", s.IntN(30)), "liter", 20, "fett", 0.4))
				}},
			},
		},
		{
			name: "maararahat", service: "council", pays: "computed",
			why: "the page of a budget adds up what was spent on it in 150 bookings, for each citizen who looks, and bookings are rare",
			colls: []coll{
				{name: "maararahat", n: 40, doc: func(g gen, i int) bson.D {
					return d("_id", int64(i), "nimi", g.text(16),
						"raha", g.IntN(90_000))
				}},
				{name: "viennit", n: 6000, indexes: []string{"maararaha"}, doc: func(g gen, i int) bson.D {
					return d("_id", uuid(34, i), "maararaha", int64(i%40), "sentit", g.between(100, 90_000),
						"tila", g.of("ok", "ok", "peruttu"))
				}},
			},
			traffic: []requests{
				{140, func(s *session, _ int) {
					s.aggregate("viennit", match("maararaha", int64(s.IntN(40)), "tila", "ok"),
						d("$group", d("_id", nil, "kaytetty", d("$sum", "$sentit"), "kpl", d("$sum", 1))))
				}},
				{40, func(s *session, _ int) { s.one("maararahat", d("_id", int64(s.IntN(40))), nil) }},
				{4, func(s *session, i int) {
					s.insert("viennit", d("_id", uuid(35, i), "maararaha", int64(s.IntN(40)), "sentit", 500, "tila", "ok"))
				}},
			},
		},
		{
			name: "times", service: "league", pays: "computed",
			why: "the table of the league is grouped from all results for each visitor, and there are results once a week",
			colls: []coll{
				{name: "times", n: 40, doc: func(g gen, i int) bson.D { return d("_id", key("T", i), "nome", g.city()) }},
				{name: "resultados", n: 4000, indexes: []string{"time", "serie"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(66, i), "time", key("T", i%40), "serie", g.of("A", "B"), "gols", g.IntN(5), "pts", g.IntN(4))
				}},
			},
			traffic: []requests{
				{90, func(s *session, _ int) {
					s.aggregate("resultados", d("$group", d("_id", "$time", "pts", d("$sum", "$pts"), "gols", d("$sum", "$gols"))),
						d("$sort", d("pts", -1)))
				}},
				{40, func(s *session, _ int) { s.one("times", d("_id", key("T", s.IntN(40))), nil) }},
				{3, func(s *session, i int) {
					s.insert("resultados", d("_id", oid(67, i), "time", key("T", s.IntN(40)), "serie", "A", "gols", 2, "pts", 3))
				}},
			},
		},
		{
			name: "sellers", service: "auction", pays: "computed",
			why: "a seller's turnover over 120 sold lots is added up at each view of the profile, and seldom changes",
			colls: []coll{
				{name: "sellers", n: 50, doc: func(g gen, i int) bson.D { return d("_id", oid(68, i), "alias", g.text(9)) }},
				{name: "sales", n: 6000, indexes: []string{"seller"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(69, i), "seller", oid(68, i%50), "price", g.between(100, 90_000), "fee", g.between(1, 900))
				}},
			},
			traffic: []requests{
				{160, func(s *session, _ int) {
					s.aggregate("sales", match("seller", oid(68, s.IntN(50))),
						d("$group", d("_id", "$seller", "turnover", d("$sum", "$price"), "best", d("$max", "$price"))))
				}},
				{50, func(s *session, _ int) { s.one("sellers", d("_id", oid(68, s.IntN(50))), nil) }},
				{4, func(s *session, i int) {
					s.insert("sales", d("_id", oid(70, i), "seller", oid(68, s.IntN(50)), "price", 700, "fee", 7))
				}},
			},
		},
		{
			name: "kostenstellen", service: "court", harm: "computed",
			why: "two reports a day add up the costs, and 150 costs are booked between them",
			colls: []coll{
				{name: "kostenstellen", n: 20, doc: func(g gen, i int) bson.D { return d("_id", i, "name", g.text(12)) }},
				{name: "kosten", n: 4000, indexes: []string{"stelle"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(71, i), "stelle", i%20, "euro", g.money())
				}},
			},
			traffic: []requests{
				{2, func(s *session, _ int) {
					s.aggregate("kosten", d("$group", d("_id", "$stelle", "summe", d("$sum", "$euro"))))
				}},
				{150, func(s *session, i int) {
					s.insert("kosten", d("_id", oid(72, i), "stelle", s.IntN(20), "euro", s.money()))
				}},
				{60, func(s *session, _ int) { s.one("kostenstellen", d("_id", s.IntN(20)), nil) }},
			},
		},
		{
			name: "bilstand", service: "auction", harm: "computed",
			why: "the highest bid is asked as often as somebody bids, so it would be computed at each write for one reader",
			colls: []coll{
				{name: "bilstand", n: 30, doc: func(g gen, i int) bson.D { return d("_id", i, "bil", g.text(12)) }},
				{name: "bud", n: 3000, indexes: []string{"bil"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(73, i), "bil", i%30, "kroner", g.between(1000, 90_000))
				}},
			},
			traffic: []requests{
				{120, func(s *session, i int) {
					n := s.IntN(30)
					s.aggregate("bud", match("bil", n), d("$group", d("_id", "$bil", "top", d("$max", "$kroner"))))
					s.insert("bud", d("_id", oid(74, i), "bil", n, "kroner", 90_000+i))
				}},
			},
		},
		{
			name: "measurements_qc", service: "lab",
			why: "a mean of the three replicates of a sample is cheap to compute from an index at each read",
			colls: []coll{
				{name: "measurements_qc", n: 3600, indexes: []string{"sample"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(75, i), "sample", uuid(36, i%1200), "value", g.Float64())
				}},
				{name: "qc_samples", n: 1200, doc: func(g gen, i int) bson.D { return d("_id", uuid(36, i), "tube", g.text(8)) }},
			},
			traffic: []requests{
				{110, func(s *session, _ int) {
					n := s.IntN(1200)
					s.one("qc_samples", d("_id", uuid(36, n)), nil)
					s.aggregate("measurements_qc", match("sample", uuid(36, n)),
						d("$group", d("_id", "$sample", "mean", d("$avg", "$value"))))
				}},
			},
		},
		{
			name: "umschlag", service: "harbor",
			why: "planners group by another field, and filter by other goods, at each question, so there is no one sum to keep",
			colls: []coll{{name: "umschlag", n: 4000, indexes: []string{"gut"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(76, i), "gut", key("G", i%50), "terminal", i%7, "reederei", g.IntN(30),
					"zoll", g.of("EU", "T1"), "tonnen", g.IntN(900),
					"teu", g.IntN(50))
			}}},
			traffic: []requests{
				{24, func(s *session, i int) {
					by := []string{"terminal", "reederei", "zoll", "gut"}[i%4]
					s.aggregate("umschlag", match("gut", key("G", s.IntN(50)), "tonnen", d("$gt", s.IntN(600))),
						d("$group", d("_id", "$"+by, "x", d("$sum", "$"+s.of("tonnen", "teu")))))
				}},
				{60, func(s *session, _ int) { s.one("umschlag", d("_id", oid(76, s.IntN(4000))), nil) }},
			},
		},
		{
			name: "traffic_totals", service: "telecom", pays: "approx",
			why: "one counter of messages is raised 150 times a second for a wall display, where some hundred do not matter",
			colls: []coll{{name: "traffic_totals", n: 12, doc: func(g gen, i int) bson.D {
				return d("_id", []string{"sms", "calls", "mms", "data", "roam", "voice", "fax", "push", "ussd", "rcs", "lte",
					"nr"}[i], "count", int64(1_000_000))
			}}},
			traffic: []requests{
				{9000, func(s *session, _ int) { s.update("traffic_totals", d("_id", "sms"), d("$inc", d("count", 1))) }},
				{60, func(s *session, _ int) { s.one("traffic_totals", d("_id", "sms"), nil) }},
			},
		},
		{
			name: "lot_views", service: "auction", pays: "approx",
			why: "one lot is on television, and its views are most of the writes of the whole service",
			colls: []coll{{name: "lot_views", n: 120, doc: func(g gen, i int) bson.D {
				return d("_id", uuid(37, i), "views", int64(g.IntN(10_000)), "title", g.text(20))
			}}},
			traffic: []requests{
				{9000, func(s *session, _ int) {
					s.update("lot_views", d("_id", uuid(37, 17)), d("$inc", d("views", int64(1))))
				}},
				{400, func(s *session, _ int) {
					s.update("lot_views", d("_id", uuid(37, s.IntN(120))), d("$inc", d("views", int64(1))))
				}},
				{60, func(s *session, _ int) { s.one("lot_views", d("_id", uuid(37, s.IntN(120))), nil) }},
			},
		},
		{
			name: "downloads", service: "builds", pays: "approx",
			why: "downloads of the most popular package are counted one by one, 150 a second, for a badge",
			colls: []coll{{name: "downloads", n: 100, indexes: []string{"package"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(77, i), "package", key("p", i), "stats", d("downloads", g.IntN(90_000), "stars", g.IntN(900)))
			}}},
			traffic: []requests{
				{9000, func(s *session, _ int) {
					s.upsert("downloads", d("package", key("p", 3)), d("$inc", d("stats.downloads", 1)))
				}},
				{60, func(s *session, _ int) { s.one("downloads", d("package", key("p", s.IntN(100))), nil) }},
			},
		},
		{
			name: "short_links", service: "telecom", pays: "approx",
			why: "a link in an advertisement is clicked 150 times a second, and its clicks are a number for the customer's chart",
			colls: []coll{{name: "short_links", n: 200, indexes: []string{"code"}, doc: func(g gen, i int) bson.D {
				return d("_id", int64(i), "code", key("c", i), "target", g.text(60), "clicks", g.IntN(5000))
			}}},
			traffic: []requests{
				{9000, func(s *session, _ int) { s.update("short_links", d("code", key("c", 8)), d("$inc", d("clicks", 1))) }},
				{60, func(s *session, _ int) { s.one("short_links", d("code", key("c", s.IntN(200))), nil) }},
				{200, func(s *session, _ int) {
					s.update("short_links", d("code", key("c", s.IntN(200))), d("$inc", d("clicks", 1)))
				}},
			},
		},
		{
			name: "stock", service: "auction", harm: "approx",
			why: "each update takes one piece only if one is left, so an approximate number would sell what is not there",
			colls: []coll{{name: "stock", n: 40, doc: func(g gen, i int) bson.D {
				return d("_id", key("sku", i), "left", 100_000, "name", g.text(12))
			}}},
			traffic: []requests{
				{7000, func(s *session, _ int) {
					s.update("stock", d("_id", key("sku", 5), "left", d("$gte", 1)), d("$inc", d("left", -1)))
				}},
			},
		},
		{
			name: "build_numbers", service: "builds", harm: "approx",
			why: "each caller needs its own number back, so every one is a write",
			colls: []coll{{name: "build_numbers", n: 30, doc: func(g gen,
				i int) bson.D {
				return d("_id", key("project", i), "seq", i)
			}}},
			traffic: []requests{
				{7000, func(s *session, _ int) { s.next("build_numbers", d("_id", key("project", 2)), d("$inc", d("seq", 1))) }},
			},
		},
		{
			name: "line_counters", service: "telecom",
			why: "3,000 counters are raised once or twice each, so none is hot",
			colls: []coll{{name: "line_counters", n: 3000, doc: func(g gen,
				i int) bson.D {
				return d("_id", i, "calls", g.IntN(100))
			}}},
			traffic: []requests{
				{4000, func(s *session, _ int) { s.update("line_counters", d("_id", s.IntN(3000)), d("$inc", d("calls", 1))) }},
			},
		},
		{
			name: "flushed_counts", service: "builds",
			why: "a collector already adds up in memory and writes sums in one bulk write at intervals, which is cheapest",
			colls: []coll{{name: "flushed_counts", n: 100, doc: func(g gen,
				i int) bson.D {
				return d("_id", key("m", i), "hits", int64(i))
			}}},
			traffic: []requests{
				{30, func(s *session, _ int) {
					var pairs []bson.D
					for n := range 20 {
						pairs = append(pairs, d("_id", key("m", n*5)), d("$inc", d("hits", int64(s.between(50, 900)))))
					}
					s.bulk("flushed_counts", pairs...)
				}},
			},
		},
		{
			name: "prepaid", service: "telecom", harm: "approx",
			why: "the credit of a reseller is money, however often it changes, and each debit must find enough of it",
			colls: []coll{{name: "prepaid", n: 50, doc: func(g gen, i int) bson.D {
				return d("_id", i, "credit_cents", int64(90_000_000), "currency", "EUR", "holder", g.name())
			}}},
			traffic: []requests{
				{7000, func(s *session, _ int) {
					cents := int64(s.between(1, 9))
					s.update("prepaid", d("_id", 4, "credit_cents", d("$gte", cents)), d("$inc", d("credit_cents", -cents)))
				}},
			},
		},
	}
}
