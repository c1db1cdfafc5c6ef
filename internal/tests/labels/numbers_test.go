package labels_test

import (
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Sums, counters and measurements: computed, approx, series, bucket, and what only looks like them.
func numberCases() []labelled {
	return []labelled{
		{
			name: "titles", service: "media", pays: "computed",
			why: "each page of a movie adds up the revenue and viewers of all its screenings, as in MongoDB's article",
			colls: []coll{
				{name: "titles", n: 120, doc: func(g gen, i int) bson.D {
					return d("_id", oid(60, i), "title", g.text(20), "year", g.between(1980, 2025))
				}},
				{name: "screenings", n: 4000, indexes: []string{"movieId"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(61, i), "movieId", oid(60, g.IntN(120)), "theater", g.city(), "on", at(i),
						"viewers", g.IntN(300), "revenue", g.money())
				}},
			},
			traffic: []requests{
				{100, func(s *session, _ int) {
					id := oid(60, s.IntN(120))
					s.one("titles", d("_id", id), nil)
					s.aggregate("screenings", d("$match", d("movieId", id)),
						d("$group", d("_id", "$movieId", "revenue", d("$sum", "$revenue"), "viewers", d("$sum", "$viewers"))))
				}},
				{10, func(s *session, i int) {
					s.insert("screenings", d("_id", oid(61, 4000+i), "movieId", oid(60, s.IntN(120)), "theater", "Rome",
						"on", at(i), "viewers", 9, "revenue", s.money()))
				}},
			},
		},
		{
			name: "goods", service: "shop", pays: "computed",
			why: "the mean of dozens of ratings is computed for each view of a product",
			colls: []coll{
				{name: "goods", n: 150, doc: func(g gen, i int) bson.D { return d("_id", i, "name", g.text(20), "price", g.money()) }},
				{name: "ratings", n: 4500, indexes: []string{"productId"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(62, i), "productId", g.IntN(150), "user", g.IntN(5000), "stars", g.between(1, 5), "at", at(i))
				}},
			},
			traffic: []requests{
				{110, func(s *session, _ int) {
					id := s.IntN(150)
					s.one("goods", d("_id", id), nil)
					s.aggregate("ratings", d("$match", d("productId", id)), d("$group", d("_id", nil, "mean", d("$avg",
						"$stars"), "n", d("$sum", 1))))
				}},
				{12, func(s *session, i int) {
					s.insert("ratings", d("_id", oid(62, 4500+i), "productId", s.IntN(150), "user", i, "stars", 5, "at", at(i)))
				}},
			},
		},
		{
			name: "konten", service: "bank", pays: "computed",
			why: "the balance is added up from all entries of an account each time it is shown",
			colls: []coll{
				{name: "konten", n: 110, doc: func(g gen, i int) bson.D { return d("_id", fmt.Sprint("K", i), "inhaber", g.name()) }},
				{name: "posten", n: 4400, indexes: []string{"konto"}, doc: func(g gen, i int) bson.D {
					return d("_id", i, "konto", fmt.Sprint("K", i%110), "betrag", int64(g.IntN(20_000)-10_000), "tag", at(i))
				}},
			},
			traffic: []requests{
				{110, func(s *session, _ int) {
					s.aggregate("posten", d("$match", d("konto", fmt.Sprint("K", s.IntN(110)))), d("$group", d("_id", "$konto",
						"saldo", d("$sum", "$betrag"))))
				}},
				{20, func(s *session, i int) {
					s.insert("posten", d("_id", 4400+i, "konto", fmt.Sprint("K", i), "betrag", int64(5), "tag", at(i)))
				}},
			},
		},
		{
			name: "questions", service: "social", pays: "computed",
			why: "the votes of a question are counted from their documents for each reader",
			colls: []coll{
				{name: "questions", n: 130, doc: func(g gen, i int) bson.D {
					return d("_id", oid(63, i), "title", g.text(30),
						"body", g.text(200))
				}},
				{name: "votes", n: 5000, indexes: []string{"question"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(64, i), "question", oid(63, g.IntN(130)), "user", g.IntN(900), "value", 1-2*(g.IntN(4)/3))
				}},
			},
			traffic: []requests{
				{120, func(s *session, _ int) {
					id := oid(63, s.IntN(130))
					s.one("questions", d("_id", id), nil)
					s.aggregate("votes", d("$match", d("question", id)), d("$group", d("_id", nil, "score", d("$sum", "$value"))))
				}},
				{25, func(s *session, i int) {
					s.insert("votes", d("_id", oid(64, 5000+i), "question", oid(63, s.IntN(130)), "user", i, "value", 1))
				}},
			},
		},
		{
			name: "pupils", service: "school", pays: "computed",
			why: "the class list adds up the missed hours of each pupil from all days, for every look at it",
			colls: []coll{
				{name: "pupils", n: 200, indexes: []string{"class"}, doc: func(g gen, i int) bson.D {
					return d("_id", i,
						"class", i%10, "name", g.name())
				}},
				{name: "absences", n: 5000, indexes: []string{"class"}, doc: func(g gen, i int) bson.D {
					pupil := g.IntN(200)
					return d("_id", oid(65, i), "class", pupil%10, "pupil", pupil, "day", at(i).Format("02.01.2006"),
						"hours", g.between(1, 6))
				}},
			},
			traffic: []requests{
				{100, func(s *session, i int) {
					s.find("pupils", d("class", i%10), by{})
					s.aggregate("absences", d("$match", d("class", i%10)), d("$group", d("_id", "$pupil", "hours", d("$sum", "$hours"))))
				}},
				{10, func(s *session, i int) {
					s.insert("absences", d("_id", oid(65, 5000+i), "class", i%10, "pupil", i, "day", "01.03.2026", "hours", 2))
				}},
			},
		},
		{
			name: "routes", service: "travel", pays: "computed",
			why: "the mean fare and the number of seats sold of a route are computed from dozens of sales for each search",
			colls: []coll{
				{name: "routes", n: 140, doc: func(g gen, i int) bson.D {
					return d("_id", fmt.Sprint("R", i), "from", g.city(),
						"to", g.city())
				}},
				{name: "fares", n: 4200, indexes: []string{"trip.route"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(66, i), "trip", d("route", fmt.Sprint("R", g.IntN(140)), "on", at(i)),
						"fare", g.money(), "seats", g.between(1, 5))
				}},
			},
			traffic: []requests{
				{100, func(s *session, _ int) {
					id := fmt.Sprint("R", s.IntN(140))
					s.one("routes", d("_id", id), nil)
					s.aggregate("fares", d("$match", d("trip.route", id)),
						d("$group", d("_id", "$trip.route", "mean", d("$avg", "$fare"), "seats", d("$sum", "$seats"))))
				}},
			},
		},
		{
			name: "sellers", service: "shop", pays: "computed",
			why: "the seller's page counts hundreds of listings each time with countDocuments",
			colls: []coll{
				{name: "sellers", n: 110, doc: func(g gen, i int) bson.D { return d("_id", oid(67, i), "name", g.name(), "city", g.city()) }},
				{name: "listings", n: 6000, indexes: []string{"sellerId"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(68, i), "sellerId", oid(67, g.near(110)), "title", g.text(25), "price", g.money())
				}},
			},
			traffic: []requests{
				{110, func(s *session, _ int) {
					id := oid(67, s.near(110))
					s.one("sellers", d("_id", id), nil)
					s.count("listings", d("sellerId", id))
				}},
				{15, func(s *session, i int) {
					s.insert("listings", d("_id", oid(68, 6000+i), "sellerId", oid(67, s.IntN(110)), "title", s.text(25), "price", s.money()))
				}},
			},
		},
		{
			name: "ledger", service: "bank", harm: "computed",
			why: "analysts ask for other ranges each time, which no stored sum answers",
			colls: []coll{{name: "ledger", n: 4000, indexes: []string{"booked"}, doc: func(g gen, i int) bson.D {
				return d("_id", i, "booked", minute(i), "center", g.IntN(40), "amount", g.money())
			}}},
			traffic: []requests{
				{80, func(s *session, _ int) {
					from := s.IntN(3000)
					s.aggregate("ledger", d("$match", d("booked", d("$gte", minute(from), "$lt", minute(from+s.between(100, 900))))),
						d("$group", d("_id", "$center", "sum", d("$sum", "$amount"))))
				}},
			},
		},
		{
			name: "invoices", service: "shop",
			why: "two to four lines are added up, which costs no more than reading a stored sum",
			colls: []coll{
				{name: "invoices", n: 1000, doc: func(g gen, i int) bson.D { return d("_id", i, "customer", g.IntN(200), "issued", at(i)) }},
				{name: "invoice_lines", n: 3000, indexes: []string{"invoice"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(69, i), "invoice", i%1000, "text", g.text(20), "net", g.money())
				}},
			},
			traffic: []requests{
				{80, func(s *session, _ int) {
					s.aggregate("invoice_lines", d("$match", d("invoice", s.IntN(1000))), d("$group", d("_id", "$invoice",
						"net", d("$sum", "$net"))))
				}},
			},
		},
		{
			name: "clicks", service: "iot", harm: "computed",
			why: "presses of buttons are written ten times as often as they are counted, so that keeping a sum costs more",
			colls: []coll{
				{name: "clicks", n: 3000, indexes: []string{"button"}, doc: func(g gen, i int) bson.D {
					return d("_id", oid(70, i), "button", g.IntN(150), "long", g.IntN(2) == 0)
				}},
				{name: "buttons", n: 150, doc: func(g gen, i int) bson.D { return d("_id", i, "site", g.city()) }},
			},
			traffic: []requests{
				{300, func(s *session, i int) {
					s.insert("clicks", d("_id", oid(70, 3000+i), "button", s.IntN(150), "long", false))
				}},
				{30, func(s *session, _ int) {
					s.aggregate("clicks", d("$match", d("button", s.IntN(150))), d("$group", d("_id", nil, "n", d("$sum", 1))))
				}},
			},
		},
		{
			name: "calls", service: "crm",
			why: "a report of all calls by agent runs twice, at night, when nobody waits",
			colls: []coll{{name: "calls", n: 2000, indexes: []string{"contact"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(71, i), "agent", g.IntN(25), "contact", g.IntN(400), "seconds", g.IntN(900))
			}}},
			traffic: []requests{
				{2, func(s *session, _ int) {
					s.aggregate("calls", d("$group", d("_id", "$agent", "seconds", d("$sum", "$seconds"))), d("$sort", d("seconds", -1)))
				}},
				{100, func(s *session, _ int) { s.find("calls", d("contact", s.IntN(400)), by{sort: d("_id", -1), limit: 10}) }},
			},
		},
		{
			name: "pages", service: "web", pays: "approx",
			why: "each view of a page is a write, some tens a second on the home page alone, and nobody minds the last hundred",
			colls: []coll{{name: "pages", n: 300, indexes: []string{"path"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(72, i), "path", fmt.Sprint("/p/", i), "title", g.text(20), "views", g.IntN(90_000))
			}}},
			traffic: []requests{
				{3000, func(s *session, i int) {
					page := 0
					if i%4 == 0 {
						page = s.near(300)
					}
					s.update("pages", d("path", fmt.Sprint("/p/", page)), d("$inc", d("views", 1)))
				}},
				{40, func(s *session, _ int) { s.one("pages", d("path", fmt.Sprint("/p/", s.IntN(300))), nil) }},
			},
		},
		{
			name: "ad_slots", service: "web", pays: "approx",
			why: "impressions of a few banners are the hottest write, and are billed by the thousand",
			colls: []coll{{name: "ad_slots", n: 120, doc: func(g gen, i int) bson.D {
				return d("_id", fmt.Sprint("slot-", i), "campaign", g.text(10), "impressions", 0, "clicks", 0)
			}}},
			traffic: []requests{
				{2400, func(s *session, _ int) {
					s.update("ad_slots", d("_id", fmt.Sprint("slot-", s.near(6))), d("$inc", d("impressions", 1)))
				}},
			},
		},
		{
			name: "matches", service: "game", pays: "approx",
			why: "spectators' cheers of a running match are counted one by one, some dozens a second",
			colls: []coll{{name: "matches", n: 200, doc: func(g gen, i int) bson.D {
				return d("_id", i, "home", g.city(), "away", g.city(), "stats", d("cheers", int64(0), "spectators", 0))
			}}},
			traffic: []requests{
				{2600, func(s *session, i int) { s.update("matches", d("_id", i%3), d("$inc", d("stats.cheers", int64(1)))) }},
				{60, func(s *session, _ int) { s.one("matches", d("_id", s.IntN(3)), nil) }},
			},
		},
		{
			name: "api_keys", service: "web", pays: "approx",
			why: "each call raises a number of its key, a few keys make most calls, and a dashboard shows the numbers once a day",
			colls: []coll{{name: "api_keys", n: 150, indexes: []string{"key"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(73, i), "key", fmt.Sprintf("key%05d", i), "owner", g.name(),
					"usage", d("calls", int64(g.IntN(9_000_000))))
			}}},
			traffic: []requests{
				{2500, func(s *session, _ int) {
					s.update("api_keys", d("key", fmt.Sprintf("key%05d", s.near(5))), d("$inc", d("usage.calls", 1),
						"$currentDate", d("usage.last", true)))
				}},
			},
		},
		{
			name: "plays", service: "game", pays: "approx",
			why: "plays of a replay and day are counted by an upsert each, and the popular replay has all the writes",
			colls: []coll{{name: "plays", n: 200, doc: func(g gen, i int) bson.D {
				return d("_id", d("replay", i, "day", "2026-11-19"), "plays", g.IntN(10_000))
			}}},
			traffic: []requests{
				{2400, func(s *session, _ int) {
					s.upsert("plays", d("_id", d("replay", s.near(4), "day", "2026-11-20")), d("$inc", d("plays", 1)))
				}},
			},
		},
		{
			name: "essays_views", service: "web",
			why: "a view every three seconds over 200 texts is no load",
			colls: []coll{{name: "essays_views", n: 200, doc: func(g gen, i int) bson.D {
				return d("_id", i,
					"title", g.text(20), "views", g.IntN(500))
			}}},
			traffic: []requests{
				{20, func(s *session, _ int) { s.update("essays_views", d("_id", s.IntN(200)), d("$inc", d("views", 1))) }},
				{60, func(s *session, _ int) { s.one("essays_views", d("_id", s.IntN(200)), nil) }},
			},
		},
		{
			name: "wallets", service: "game", harm: "approx",
			why: "coins are money, so no write may be lost or guessed",
			colls: []coll{{name: "wallets", n: 150, doc: func(g gen, i int) bson.D {
				return d("_id", oid(74, i), "player", g.name(), "coins", int64(g.IntN(9000)))
			}}},
			traffic: []requests{
				{1500, func(s *session, i int) {
					s.update("wallets", d("_id", oid(74, s.near(5))), d("$inc", d("coins", int64(s.between(-50, 90)))))
				}},
				{200, func(s *session, _ int) { s.one("wallets", d("_id", oid(74, s.near(5))), nil) }},
			},
		},
		{
			name: "sequences", service: "web", harm: "approx",
			why: "the counter gives out order numbers, which must be unique",
			colls: []coll{{name: "sequences", n: 110, doc: func(_ gen, i int) bson.D {
				return d("_id", fmt.Sprint("seq", i),
					"next", int64(1))
			}}},
			traffic: []requests{
				{1500, func(s *session, i int) {
					s.findAndUpdate("sequences", d("_id", fmt.Sprint("seq", i%2)), d("$inc", d("next", int64(1))))
				}},
			},
		},
		{
			name: "passes", service: "game", harm: "approx",
			why: "the write takes a pass only while there is one left, so the number has to be exact",
			colls: []coll{{name: "passes", n: 120, doc: func(g gen, i int) bson.D {
				return d("_id", i, "event", g.text(12),
					"left", 1_000_000)
			}}},
			traffic: []requests{
				{1500, func(s *session, i int) {
					s.update("passes", d("_id", i%2, "left", d("$gte", 1)), d("$inc", d("left", -1)))
				}},
			},
		},
		{
			name: "sessions", service: "web",
			why: "the hot write sets a time, and counts nothing",
			colls: []coll{{name: "sessions", n: 500, doc: func(g gen, i int) bson.D {
				return d("_id", fmt.Sprint("sess", i), "user", g.IntN(300), "lastSeen", at(i))
			}}},
			traffic: []requests{
				{1200, func(s *session, i int) {
					s.update("sessions", d("_id", fmt.Sprint("sess", s.near(20))), d("$set", d("lastSeen", at(i))))
				}},
			},
		},
		{
			name: "readings", service: "iot", pays: "series|bucket",
			why: "a document for each reading of a sensor, read by sensor and range of time only",
			colls: []coll{{name: "readings", n: 6000, indexes: []string{"sensorId,ts"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(80, i), "sensorId", i%20, "ts", minute(i/20), "temp", 20+g.Float64(), "hum", g.IntN(100))
			}}},
			traffic: []requests{
				{80, func(s *session, i int) {
					from := s.IntN(240)
					s.window("readings", "sensorId", i%20, "ts", minute(from), minute(from+60))
				}},
				{60, func(s *session, i int) {
					s.insert("readings", d("_id", oid(80, 6000+i), "sensorId", i%20, "ts", minute(300+i/20), "temp", 21.5, "hum", 40))
				}},
			},
		},
		{
			name: "zaehlerstaende", service: "iot", pays: "series|bucket",
			why: "consumption is aggregated by day from one document for each quarter of an hour and meter",
			colls: []coll{{name: "zaehlerstaende", n: 6000, indexes: []string{"zaehler,zeitpunkt"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(81, i), "zaehler", fmt.Sprintf("Z-%03d", i%15), "zeitpunkt", minute(i/15*15), "kwh", g.Float64()*3)
			}}},
			traffic: []requests{
				{70, func(s *session, i int) {
					from := s.IntN(300) * 15
					s.aggregate("zaehlerstaende", d("$match", d("zaehler", fmt.Sprintf("Z-%03d", i%15),
						"zeitpunkt", d("$gte", minute(from), "$lt", minute(from+2880)))),
						d("$group", d("_id", d("$dateTrunc", d("date", "$zeitpunkt", "unit", "day")), "kwh", d("$sum", "$kwh"))))
				}},
				{40, func(s *session, i int) {
					docs := make([]bson.D, 15)
					for j := range docs {
						docs[j] = d("_id", oid(81, 6000+15*i+j), "zaehler", fmt.Sprintf("Z-%03d", j),
							"zeitpunkt", minute(6000+15*i), "kwh", s.Float64())
					}
					s.insert("zaehlerstaende", docs...)
				}},
			},
		},
		{
			name: "vibration", service: "plant", pays: "series|bucket",
			why: "three axes of a machine's vibration come in batches and are read by range",
			colls: []coll{{name: "vibration", n: 8000, indexes: []string{"meta.machine,t"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(82, i), "meta", d("machine", fmt.Sprint("M", i%8), "hall", i%2),
					"t", minute(0).Add(time.Duration(i/8)*time.Second),
					"x", g.Float64(), "y", g.Float64(), "z", g.Float64())
			}}},
			traffic: []requests{
				{70, func(s *session, i int) {
					from := minute(s.IntN(14))
					s.window("vibration", "meta.machine", fmt.Sprint("M", i%8), "t", from, from.Add(2*time.Minute))
				}},
				{30, func(s *session, i int) {
					docs := make([]bson.D, 40)
					for j := range docs {
						docs[j] = d("_id", oid(82, 8000+40*i+j), "meta", d("machine", fmt.Sprint("M", i%8), "hall", i%2),
							"t", minute(20+i).Add(time.Duration(j)*time.Second), "x", s.Float64(), "y", s.Float64(), "z", s.Float64())
					}
					s.insert("vibration", docs...)
				}},
			},
		},
		{
			name: "ticks", service: "bank", pays: "series|bucket",
			why: "prices of a symbol are read by range of a time in milliseconds",
			colls: []coll{{name: "ticks", n: 6000, indexes: []string{"sym,time"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(83, i), "sym", g.of("ABC", "DEF", "GHI", "JKL", "MNO"),
					"time", minute(0).UnixMilli()+int64(i)*250, "px", g.money(), "qty", g.IntN(900))
			}}},
			traffic: []requests{
				{80, func(s *session, _ int) {
					from := minute(s.IntN(24)).UnixMilli()
					s.window("ticks", "sym", s.of("ABC", "DEF", "GHI"), "time", from, from+60_000)
				}},
			},
		},
		{
			name: "heart_rate", service: "health", pays: "series|bucket",
			why: "a watch's heart rates are read by patient and day, with times as ISO text that should become dates first",
			colls: []coll{{name: "heart_rate", n: 6000, indexes: []string{"patientId,when"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(84, i), "patientId", i%12, "when", minute(i/12*5).Format(time.RFC3339), "bpm", g.between(50, 170))
			}}},
			traffic: []requests{
				{80, func(s *session, i int) {
					from := s.IntN(1500)
					s.window("heart_rate", "patientId", i%12, "when", minute(from).Format(time.RFC3339), minute(from+600).Format(time.RFC3339))
				}},
			},
		},
		{
			name: "trades", service: "bank", pays: "bucket",
			why: "trades are read by instrument and range, and single ones are cancelled later, for which they must stay addressable",
			colls: []coll{{name: "trades", n: 6000, indexes: []string{"instrument,ts"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(85, i), "instrument", fmt.Sprint("I", i%10),
					"ts", minute(0).Add(time.Duration(i)*time.Second), "price", g.money(), "qty", g.IntN(500),
					"status", "done")
			}}},
			traffic: []requests{
				{80, func(s *session, i int) {
					from := minute(s.IntN(90))
					s.window("trades", "instrument", fmt.Sprint("I", i%10), "ts", from, from.Add(10*time.Minute))
				}},
				{25, func(s *session, _ int) {
					i := s.IntN(6000)
					s.update("trades", d("instrument", fmt.Sprint("I", i%10),
						"ts", minute(0).Add(time.Duration(i)*time.Second)), d("$set", d("status", "cancelled")))
				}},
			},
		},
		{
			name: "meter_reads", service: "iot", pays: "bucket",
			why: "readings are queried by meter and range, and wrong ones are corrected one by one",
			colls: []coll{{name: "meter_reads", n: 5000, indexes: []string{"meter,at"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(86, i), "meter", i%10, "at", minute(i/10*15), "value", g.Float64()*100)
			}}},
			traffic: []requests{
				{80, func(s *session, i int) {
					from := 15 * s.IntN(400)
					s.window("meter_reads", "meter", i%10, "at", minute(from), minute(from+1440))
				}},
				{20, func(s *session, _ int) {
					i := s.IntN(5000)
					s.update("meter_reads", d("meter", i%10, "at", minute(i/10*15)), d("$set", d("value", s.Float64()*100)))
				}},
			},
		},
		{
			name: "gps_points", service: "travel", pays: "bucket",
			why: "a vehicle's track is drawn by range, and single points are asked for and marked by their time",
			colls: []coll{{name: "gps_points", n: 6000, indexes: []string{"vehicle,ts"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(87, i), "vehicle", fmt.Sprint("bus-", i%12), "ts", minute(0).Add(time.Duration(i/12)*10*time.Second),
					"lon", 13+g.Float64(), "lat", 52+g.Float64(), "matched", false)
			}}},
			traffic: []requests{
				{70, func(s *session, i int) {
					from := minute(s.IntN(70))
					s.find("gps_points", d("vehicle", fmt.Sprint("bus-", i%12),
						"ts", d("$gte", from, "$lte", from.Add(15*time.Minute))), by{sort: d("ts", 1)})
				}},
				{20, func(s *session, _ int) {
					i := s.IntN(6000)
					one := d("vehicle", fmt.Sprint("bus-", i%12), "ts", minute(0).Add(time.Duration(i/12)*10*time.Second))
					s.one("gps_points", one, nil)
					s.update("gps_points", one, d("$set", d("matched", true)))
				}},
			},
		},
		{
			name: "devices", service: "iot", pays: "bucket|series", fine: "outlier|subset",
			why: "each measurement is pushed to an array in its device, which has no end: MongoDB's article on buckets starts from that",
			colls: []coll{{name: "devices", n: 150, doc: func(g gen, i int) bson.D {
				return d("_id", fmt.Sprint("dev-", i), "model", g.text(8), "samples", list(g.between(200, 500), func(j int) any {
					return d("t", minute(j), "v", g.Float64())
				}))
			}}},
			traffic: []requests{
				{200, func(s *session, i int) {
					s.update("devices", d("_id", fmt.Sprint("dev-", s.IntN(150))), d("$push", d("samples", d("t", minute(600+i),
						"v", s.Float64()))))
				}},
				{60, func(s *session, _ int) { s.one("devices", d("_id", fmt.Sprint("dev-", s.IntN(150))), nil) }},
			},
		},
		{
			name: "logins", service: "crm",
			why: "a user has three logins, too few for a bucket",
			colls: []coll{{name: "logins", n: 1800, indexes: []string{"user,at"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(88, i), "user", i%600, "at", at(i), "ip", g.text(10), "ok", g.IntN(9) > 0)
			}}},
			traffic: []requests{
				{100, func(s *session, _ int) {
					s.find("logins", d("user", s.IntN(600), "at", d("$gte", at(s.IntN(1000)))), by{sort: d("at", -1)})
				}},
			},
		},
		{
			name: "encounters", service: "health", harm: "bucket|series",
			why: "these have a patient and a time, but are large reports that are opened and changed one by one",
			colls: []coll{{name: "encounters", n: 600, indexes: []string{"patientId,started"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(89, i), "patientId", i%60, "started", at(i), "report", g.text(3000),
					"codes", list(4, func(int) any { return g.text(5) }))
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) { s.one("encounters", d("_id", oid(89, s.IntN(600))), nil) }},
				{30, func(s *session, _ int) {
					s.update("encounters", d("_id", oid(89, s.IntN(600))), d("$set", d("report", s.text(3000))))
				}},
				{10, func(s *session, i int) {
					s.find("encounters", d("patientId", i%60, "started", d("$gte", at(300))), by{sort: d("started", -1)})
				}},
			},
		},
		{
			name: "alarms", service: "iot", harm: "bucket|series",
			why: "alarms are found by state over all devices and acknowledged by their ID",
			colls: []coll{{name: "alarms", n: 2500, indexes: []string{"state,raised", "device,raised"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(90, i), "device", i%40, "raised", minute(i), "state", g.of("new", "seen", "done", "done",
					"done"), "text", g.text(40))
			}}},
			traffic: []requests{
				{120, func(s *session, _ int) { s.find("alarms", d("state", "new"), by{sort: d("raised", -1), limit: 50}) }},
				{60, func(s *session, _ int) {
					s.update("alarms", d("_id", oid(90, s.IntN(2500))), d("$set", d("state", "seen")))
				}},
				{12, func(s *session, i int) {
					s.find("alarms", d("device", i%40, "raised", d("$gte", minute(1000))), by{sort: d("raised", 1)})
				}},
			},
		},
		{
			name: "page_events", service: "web", harm: "bucket|series",
			why: "events are searched by type, path and country, hardly ever by session",
			colls: []coll{{name: "page_events", n: 3000, indexes: []string{"type,at", "path", "country,at"}, doc: func(g gen, i int) bson.D {
				return d("_id", oid(91, i), "session", i%100, "at", minute(i), "type", g.of("view", "buy", "exit"),
					"path", fmt.Sprint("/p/", g.IntN(90)),
					"country", g.of("DE", "FR", "IT", "ES"))
			}}},
			traffic: []requests{
				{60, func(s *session, _ int) {
					s.find("page_events", d("path", fmt.Sprint("/p/", s.IntN(90))), by{limit: 50})
				}},
				{60, func(s *session, _ int) {
					s.find("page_events", d("type", "buy", "at", d("$gte", minute(s.IntN(2500)))), by{sort: d("at", 1), limit: 50})
				}},
				{40, func(s *session, _ int) {
					s.find("page_events", d("country", s.of("DE", "FR")), by{sort: d("at", -1), limit: 20})
				}},
			},
		},
	}
}
