package labels_test

import (
	"go.mongodb.org/mongo-driver/v2/bson"
)

// burst is a bulk write of the same update n times.
func (s *session) burst(coll string, n int, filter, update bson.D) {
	var pairs []bson.D
	for range n {
		pairs = append(pairs, filter, update)
	}
	s.bulk(coll, pairs...)
}

// Numbers: computed, approx.
func thirdNumberCases() []labelled {
	return []labelled{
		{
			name: "mostre", service: "museum", pays: "computed",
			why: "every page of an exhibition adds up a hundred days of tickets, and the tickets of a day are stored once",
			colls: []coll{
				{name: "mostre", n: 60, doc: func(g gen, i int) bson.D {
					return d("_id", oid(60, i), "titolo", g.text(20), "dal", at(i*24))
				}},
				{name: "ingressi", n: 6000, indexes: []string{"mostra"}, doc: func(g gen, i int) bson.D {
					return d("_id", i, "mostra", oid(60, i%60), "giorno", at(i/60*24), "paganti", g.IntN(900),
						"gratis", g.IntN(90), "cents", g.IntN(900_000))
				}},
			},
			traffic: []requests{
				{140, func(s *session, _ int) {
					id := oid(60, s.IntN(60))
					s.one("mostre", d("_id", id), nil)
					s.aggregate("ingressi", match("mostra", id), d("$group", d("_id", "$mostra",
						"paganti", d("$sum", "$paganti"), "cents", d("$sum", "$cents"))))
				}},
				{3, func(s *session, i int) {
					s.insert("ingressi", d("_id", 6000+i, "mostra", oid(60, i), "giorno", at(3000), "paganti", 90,
						"gratis", 3, "cents", 90_000))
				}},
			},
		},
		{
			name: "bakverk", service: "recipes", pays: "computed",
			why: "the mean of eighty ratings is computed for each reader, a hundred of them between two new ratings",
			colls: []coll{
				{name: "bakverk", n: 80, doc: func(g gen, i int) bson.D {
					return d("_id", i, "namn", g.text(14), "minuter", g.between(20, 200))
				}},
				{name: "betyg", n: 6400, indexes: []string{"bakverk"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(61, i), "bakverk", i%80, "av", g.IntN(9000), "stjärnor", g.between(1, 5))
				}},
			},
			traffic: []requests{
				{150, func(s *session, _ int) {
					n := s.IntN(80)
					s.one("bakverk", d("_id", n), nil)
					s.aggregate("betyg", match("bakverk", n), d("$group", d("_id", nil,
						"medel", d("$avg", "$stjärnor"), "antal", d("$sum", 1))))
				}},
				{2, func(s *session, i int) {
					s.insert("betyg", d("_id", oid(61, 6400+i), "bakverk", i, "av", i, "stjärnor", 5))
				}},
			},
		},
		{
			name: "funds", service: "aid", pays: "computed", fine: "extref|relation",
			why: "each page of a fund joins its hundred gifts only to add them up, and gifts come a few times a day",
			colls: []coll{
				{name: "funds", n: 60, doc: func(g gen, i int) bson.D {
					return d("_id", key("fund", i), "title", g.text(20), "goal", g.IntN(9_000_000))
				}},
				{name: "fund_gifts", n: 6000, indexes: []string{"fund"}, doc: func(g gen, i int) bson.D {
					return d("_id", uuid(62, i), "fund", key("fund", i%60), "cents", g.between(100, 90_000),
						"on", at(i), "by", g.name())
				}},
			},
			traffic: []requests{
				{140, func(s *session, _ int) {
					s.aggregate("funds", match("_id", key("fund", s.IntN(60))), join("fund_gifts", "_id", "fund", "gifts"),
						d("$project", d("title", 1, "goal", 1, "raised", d("$sum", "$gifts.cents"),
							"gifts", d("$size", "$gifts"))))
				}},
				{3, func(s *session, i int) {
					s.insert("fund_gifts", d("_id", uuid(62, 6000+i), "fund", key("fund", i), "cents", 500,
						"on", at(7000), "by", s.name()))
				}},
			},
		},
		{
			name: "ensousha", service: "festival", pays: "computed", fine: "relation",
			why: "the page of a player shows how many bookmarks there are, counted each time over eighty and more",
			colls: []coll{
				{name: "ensousha", n: 70, doc: func(g gen, i int) bson.D {
					return d("_id", oid(63, i), "名前", g.name(), "楽器", g.of("琴", "尺八"))
				}},
				{name: "shiori", n: 6000, indexes: []string{"奏者"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(64, i), "奏者", oid(63, i%70), "利用者", g.IntN(9000), "時", at(i))
				}},
			},
			traffic: []requests{
				{150, func(s *session, _ int) {
					id := oid(63, s.IntN(70))
					s.one("ensousha", d("_id", id), nil)
					s.count("shiori", d("奏者", id))
				}},
				{3, func(s *session, i int) {
					s.insert("shiori", d("_id", oid(64, 6000+i), "奏者", oid(63, i), "利用者", i, "時", at(6000+i)))
				}},
			},
		},
		{
			name: "landsbyer", service: "genealogy", pays: "computed", fine: "relation",
			why: "a list of villages counts the people of each, fifteen counts for every list, and people are added rarely",
			colls: []coll{
				{name: "landsbyer", n: 60, indexes: []string{"amt"}, doc: func(g gen, i int) bson.D {
					return d("_id", i, "navn", g.city(), "amt", i%4)
				}},
				{name: "beboere", n: 6000, indexes: []string{"landsby"}, doc: func(g gen, i int) bson.D {
					return d("_id", uuid(65, i), "landsby", i%60, "navn", g.name(), "født", 1700+i%200)
				}},
			},
			traffic: []requests{
				{50, func(s *session, i int) {
					for _, village := range s.find("landsbyer", d("amt", i%4), by{sort: d("_id", 1), limit: 15}) {
						s.count("beboere", d("landsby", village["_id"]))
					}
				}},
				{2, func(s *session, i int) {
					s.insert("beboere", d("_id", uuid(65, 6000+i), "landsby", i, "navn", s.name(), "født", 1800))
				}},
			},
		},
		{
			name: "betreiber", service: "railway", pays: "computed",
			why: "the front page ranks twenty operators by delays over all 5,000 trips for each visitor, and trips come in once a day",
			colls: []coll{
				{name: "betreiber", n: 20, doc: func(g gen, i int) bson.D {
					return d("_id", i, "name", g.name(), "sitz", g.city())
				}},
				{name: "zugläufe", n: 5000, indexes: []string{"betreiber"}, doc: func(g gen, i int) bson.D {
					return d("_id", int64(i), "betreiber", i%20, "verspätung", g.near(60), "ausfall", i%50 == 0)
				}},
			},
			traffic: []requests{
				{60, func(s *session, _ int) {
					s.aggregate("zugläufe", d("$group", d("_id", "$betreiber", "minuten", d("$sum", "$verspätung"),
						"fahrten", d("$sum", 1))),
						d("$sort", d("minuten", -1)), d("$limit", 10))
				}},
				{40, func(s *session, _ int) { s.one("betreiber", d("_id", s.IntN(20)), nil) }},
			},
		},
		{
			name: "tim", service: "quiz", pays: "computed",
			why: "a team's page adds up its points of hundreds of rounds for every fan, and a round ends once a week",
			colls: []coll{
				{name: "tim", n: 30, doc: func(g gen, i int) bson.D {
					return d("_id", key("tim", i), "nama", g.text(10), "kota", g.city())
				}},
				{name: "ronde", n: 6000, indexes: []string{"timId"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(66, i), "timId", key("tim", i%30), "poin", g.IntN(100), "benar", g.IntN(20))
				}},
			},
			traffic: []requests{
				{140, func(s *session, _ int) {
					id := key("tim", s.IntN(30))
					s.one("tim", d("_id", id), nil)
					s.aggregate("ronde", match("timId", id), d("$group", d("_id", "$timId", "poin", d("$sum", "$poin"),
						"benar", d("$sum", "$benar"))))
				}},
				{2, func(s *session, i int) {
					s.insert("ronde", d("_id", oid(66, 6000+i), "timId", key("tim", i), "poin", 50, "benar", 9))
				}},
			},
		},
		{
			name: "decks", service: "parking",
			why: "the sum of a deck is asked for as often as one of its bays changes, so aggregating at each read is cheaper",
			colls: []coll{
				{name: "decks", n: 50, doc: func(g gen, i int) bson.D { return d("_id", i, "level", i%5, "height", 210) }},
				{name: "bays", n: 3000, indexes: []string{"deck"}, doc: func(g gen, i int) bson.D {
					return d("_id", i, "deck", i%50, "cars", g.IntN(2), "since", at(i))
				}},
			},
			traffic: []requests{
				{110, func(s *session, _ int) {
					n := s.IntN(50)
					s.aggregate("bays", match("deck", n), d("$group", d("_id", "$deck", "cars", d("$sum", "$cars"))))
				}},
				{160, func(s *session, i int) {
					s.update("bays", d("_id", s.IntN(3000)), d("$set", d("cars", s.IntN(2), "since", at(9000+i))))
				}},
			},
		},
		{
			name: "lynnedslag", service: "weather", fine: "bucket|series",
			why: "each request adds up another stretch of days and another box on the map, so no stored sum serves the next one",
			colls: []coll{{name: "lynnedslag", n: 5000, indexes: []string{"dag"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(67, i), "dag", at(i), "x", g.IntN(100), "y", g.IntN(100), "kA", g.IntN(200))
			}}},
			traffic: []requests{
				{110, func(s *session, _ int) {
					from, x := s.IntN(4000), s.IntN(80)
					s.aggregate("lynnedslag", match("dag", d("$gte", at(from), "$lt", at(from+s.between(24, 900))),
						"x", d("$gte", x, "$lt", x+20)),
						d("$group", d("_id", nil, "slag", d("$sum", 1), "kA", d("$max", "$kA"))))
				}},
			},
		},
		{
			name: "faturalar", service: "fire",
			why: "the sum is over the few lines inside one bill, which costs nothing beyond reading it",
			colls: []coll{{name: "faturalar", n: 1000, doc: func(g gen, i int) bson.D {
				return d("_id", i, "firma", g.name(), "kalemler", list(g.between(1, 8), func(int) any {
					return d("ad", g.text(8), "tutar", g.IntN(900))
				}))
			}}},
			traffic: []requests{
				{130, func(s *session, _ int) {
					s.aggregate("faturalar", match("_id", s.IntN(1000)), d("$project", d("firma", 1, "kalemler", 1,
						"toplam", d("$sum", "$kalemler.tutar"))))
				}},
			},
		},
		{
			name: "facturas", service: "power",
			why: "the sums by client run twice in a monthly report, and all other reads are of one bill",
			colls: []coll{{name: "facturas", n: 4000, indexes: []string{"cliente"}, doc: func(g gen, i int) bson.D {
				return d("_id", key("F", i), "cliente", i%400, "mes", i/400, "centimos", g.IntN(20_000))
			}}},
			traffic: []requests{
				{2, func(s *session, _ int) {
					s.aggregate("facturas", d("$group", d("_id", "$cliente", "total", d("$sum", "$centimos"))))
				}},
				{160, func(s *session, _ int) { s.one("facturas", d("_id", key("F", s.IntN(4000))), nil) }},
			},
		},
		{
			name: "brygady", service: "mine",
			why: "the number of shifts already stands in the brigade and is raised with each shift, which few are",
			colls: []coll{
				{name: "brygady", n: 80, doc: func(g gen, i int) bson.D {
					return d("_id", i, "kierownik", g.name(), "zmian", g.IntN(400))
				}},
				{name: "zmiany", n: 3000, indexes: []string{"brygada"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(68, i), "brygada", i%80, "dzień", at(i), "ton", g.IntN(90))
				}},
			},
			traffic: []requests{
				{140, func(s *session, _ int) { s.one("brygady", d("_id", s.IntN(80)), nil) }},
				{15, func(s *session, i int) {
					s.insert("zmiany", d("_id", oid(68, 3000+i), "brygada", i, "dzień", at(3000+i), "ton", 40))
					s.update("brygady", d("_id", i), d("$inc", d("zmian", 1)))
				}},
			},
		},
		{
			name: "acara", service: "quiz", pays: "approx",
			why: "each player who taps in a live show raises one number of the show, more than a hundred in a second",
			colls: []coll{{name: "acara", n: 40, doc: func(g gen, i int) bson.D {
				return d("_id", key("acara", i), "judul", g.text(15), "ketukan", g.IntN(9000))
			}}},
			traffic: []requests{
				{6900, func(s *session, _ int) { s.update("acara", d("_id", "acara-00007"), d("$inc", d("ketukan", 1))) }},
				{60, func(s *session, _ int) { s.one("acara", d("_id", "acara-00007"), nil) }},
			},
		},
		{
			name: "sider", service: "weather", pays: "approx",
			why: "views of the start page are stored as they come, 130 a second from the queue, and are shown rounded to a thousand",
			colls: []coll{{name: "sider", n: 200, indexes: []string{"sti"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(69, i), "sti", key("/sted", i), "tall", d("visninger", g.IntN(900_000), "delt", g.IntN(90)))
			}}},
			traffic: []requests{
				{156, func(s *session, _ int) {
					s.burst("sider", 50, d("sti", "/sted-00000"), d("$inc", d("tall.visninger", 1)))
				}},
				{300, func(s *session, _ int) {
					s.update("sider", d("sti", key("/sted", s.between(1, 199))), d("$inc", d("tall.visninger", 1)))
				}},
				{80, func(s *session, _ int) { s.one("sider", d("sti", key("/sted", s.IntN(200))), nil) }},
			},
		},
		{
			name: "gates", service: "parking", pays: "approx",
			why: "passing cars of all gates raise one number of the city, 140 a second, for a figure on the web page",
			colls: []coll{{name: "gates", n: 30, doc: func(g gen, i int) bson.D {
				return d("_id", i, "city", g.city(), "passed", int64(g.IntN(9_000_000)))
			}}},
			traffic: []requests{
				{84, func(s *session, _ int) { s.burst("gates", 100, d("_id", 3), d("$inc", d("passed", int64(1)))) }},
				{70, func(s *session, _ int) { s.one("gates", d("_id", s.IntN(30)), keep("passed")) }},
			},
		},
		{
			name: "audioguide", service: "museum", pays: "approx",
			why: "guides report plays of the first room in hundreds a second when a group starts, and the number is a statistic",
			colls: []coll{{name: "audioguide", n: 90, doc: func(g gen, i int) bson.D {
				return d("_id", key("sala", i), "lingua", g.of("it", "en"), "ascolti", g.IntN(9000))
			}}},
			traffic: []requests{
				{9, func(s *session, _ int) {
					s.burst("audioguide", 140, d("_id", "sala-00001"), d("$inc", d("ascolti", 1)))
				}},
				{60, func(s *session, _ int) { s.one("audioguide", d("_id", key("sala", s.IntN(90))), nil) }},
			},
		},
		{
			name: "harian", service: "quiz", pays: "approx", fine: "outlier|relation|split|subset",
			why: "each day keeps the IDs of 3,000 players only to show how many distinct ones there were, which takes a few kilobytes",
			colls: []coll{{name: "harian", n: 40, doc: func(g gen, i int) bson.D {
				return d("_id", at(i*24).Format("2006-01-02"), "pemain", list(3000,
					func(j int) any { return int64(i*100_000 + j*17) }))
			}}},
			traffic: []requests{
				{500, func(s *session, _ int) {
					s.update("harian", d("_id", "2024-02-09"), d("$addToSet", d("pemain", int64(9_000_000+s.IntN(60_000)))))
				}},
				{80, func(s *session, i int) {
					s.aggregate("harian", match("_id", at(i%40*24).Format("2006-01-02")), d("$project",
						d("n", d("$size", "$pemain"))))
				}},
			},
		},
		{
			name: "zones", service: "parking", harm: "approx",
			why: "the number of free places is a stock with a guard against the last one, which may not be off by a hundred",
			colls: []coll{{name: "zones", n: 40, doc: func(g gen, i int) bson.D {
				return d("_id", key("zone", i), "left", 900_000, "tariff", g.IntN(9))
			}}},
			traffic: []requests{
				{20, func(s *session, _ int) {
					for range 130 {
						s.update("zones", d("_id", "zone-00002", "left", d("$gt", 0)), d("$inc", d("left", -1)))
					}
				}},
				{60, func(s *session, _ int) { s.one("zones", d("_id", key("zone", s.IntN(40))), nil) }},
			},
		},
		{
			name: "urutan", service: "quiz", harm: "approx",
			why: "each answer takes the next number and uses it, so every single one has to be written",
			colls: []coll{{name: "urutan", n: 12, doc: func(g gen, i int) bson.D {
				return d("_id", key("seq", i), "nilai", int64(i*1000))
			}}},
			traffic: []requests{
				{24, func(s *session, _ int) {
					for range 120 {
						s.next("urutan", d("_id", "seq-00003"), d("$inc", d("nilai", int64(1))))
					}
				}},
			},
		},
		{
			name: "tills", service: "parking", harm: "approx",
			why: "the till adds cents, and its books have to be right to the cent after a crash",
			colls: []coll{{name: "tills", n: 20, doc: func(g gen, i int) bson.D {
				return d("_id", i, "place", g.city(), "cents", int64(0))
			}}},
			traffic: []requests{
				{70, func(s *session, _ int) {
					s.burst("tills", 100, d("_id", 4), d("$inc", d("cents", int64(s.between(1, 40)*10))))
				}},
				{50, func(s *session, _ int) { s.one("tills", d("_id", s.IntN(20)), nil) }},
			},
		},
		{
			name: "nedlastinger", service: "weather",
			why: "the hottest file is loaded seven times in a second, which a plain $inc takes without a trace",
			colls: []coll{{name: "nedlastinger", n: 100, doc: func(g gen, i int) bson.D {
				return d("_id", i, "fil", key("f", i), "antall", g.IntN(900))
			}}},
			traffic: []requests{
				{600, func(s *session, i int) {
					n := 0
					if i%3 == 0 {
						n = s.IntN(100)
					}
					s.update("nedlastinger", d("_id", n), d("$inc", d("antall", 1)))
				}},
			},
		},
		{
			name: "colliers", service: "vet",
			why: "steps are counted for a thousand collars in turn, so no document is a hot one",
			colls: []coll{{name: "colliers", n: 1000, doc: func(g gen, i int) bson.D {
				return d("_id", uuid(70, i), "animal", g.name(), "pas", g.IntN(9000))
			}}},
			traffic: []requests{
				{700, func(s *session, i int) { s.update("colliers", d("_id", uuid(70, i)), d("$inc", d("pas", 1))) }},
				{50, func(s *session, _ int) { s.one("colliers", d("_id", uuid(70, s.IntN(1000))), nil) }},
			},
		},
	}
}
