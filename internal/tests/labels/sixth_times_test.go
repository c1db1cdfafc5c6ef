package labels_test

import "go.mongodb.org/mongo-driver/v2/bson"

// Measurements and events: series, bucket.
func sixthTimeCases() []labelled {
	return []labelled{
		{
			name: "hive_scales", service: "apiary", pays: "series", fine: "bucket",
			why: "a scale sends sixty weights at once, plots read a range of one hive, and no value is ever changed or looked up",
			colls: []coll{{"hive_scales", 6000, []string{"hive,at"}, func(g gen, i int) bson.D {
				return d("_id", oid(92, i), "hive", key("H", i%6), "at", minute(i/6), "kg", float64(g.between(200, 700))/10,
					"temp", g.between(-5, 38))
			}}},
			traffic: []requests{
				{30, func(s *session, i int) {
					s.insert("hive_scales", batch(60, func(j int) bson.D {
						return d("_id", oid(93, i*60+j), "hive", key("H", i%6), "at", minute(1000+i/6*60+j), "kg", 44.5,
							"temp", s.between(-5, 38))
					})...)
				}},
				{150, func(s *session, _ int) {
					from := s.IntN(800)
					s.window("hive_scales", "hive", key("H", s.IntN(6)), "at", minute(from), minute(from+200))
				}},
			},
		},
		{
			name: "vibrazioni", service: "elevators", pays: "series", fine: "bucket",
			why: "each lift reports three numbers a minute in batches of 50, and the engineers plot hours or average them",
			colls: []coll{{"vibrazioni", 6000, []string{"lift,ora"}, func(g gen, i int) bson.D {
				return d("_id", snow(11, i), "lift", int32(i%5), "ora", minute(i/5), "x", g.money(), "y", g.money(), "z", g.money())
			}}},
			traffic: []requests{
				{30, func(s *session, i int) {
					s.insert("vibrazioni", batch(50, func(j int) bson.D {
						return d("_id", snow(12, i*50+j), "lift", int32(i%5), "ora", minute(1200+i/5*50+j), "x", s.money(),
							"y", s.money(), "z", s.money())
					})...)
				}},
				{100, func(s *session, _ int) {
					from := s.IntN(1000)
					s.window("vibrazioni", "lift", int32(s.IntN(5)), "ora", minute(from), minute(from+240))
				}},
				{40, func(s *session, _ int) {
					from := s.IntN(1000)
					s.linq("vibrazioni", d("lift", int32(s.IntN(5)), "ora", d("$gte", minute(from), "$lt", minute(from+240))),
						group("_id", nil, "x", d("$avg", "$x"), "max", d("$max", "$z")))
				}},
			},
		},
		{
			name: "telemetrie", service: "drones", pays: "series", fine: "bucket",
			why: "after a landing the aircraft uploads its flight as a hundred points at once, and a replay reads them by range",
			colls: []coll{{"telemetrie", 6000, []string{"dron,kdy"}, func(g gen, i int) bson.D {
				return d("_id", oid(94, i), "dron", uuid(75, i%5), "kdy", minute(i/5), "výška", g.between(0, 120),
					"volt", g.money(), "sat", g.between(4, 20))
			}}},
			traffic: []requests{
				{20, func(s *session, i int) {
					s.insert("telemetrie", batch(100, func(j int) bson.D {
						return d("_id", oid(95, i*100+j), "dron", uuid(75, i%5), "kdy", minute(1200+i/5*100+j), "výška", j,
							"volt", 14.8, "sat", 11)
					})...)
				}},
				{150, func(s *session, _ int) {
					from := s.IntN(1000)
					s.window("telemetrie", "dron", uuid(75, s.IntN(5)), "kdy", minute(from), minute(from+150))
				}},
			},
		},
		{
			name: "fill_levels", service: "waste", pays: "series", fine: "bucket",
			why: "sensors in containers send 48 levels once a day, curves read weeks of one container, and old values never change",
			colls: []coll{{"fill_levels", 6000, []string{"bin,t"}, func(g gen, i int) bson.D {
				return d("_id", uuid(76, i), "bin", int64(i%8), "t", minute(i/8*30), "percent", g.between(0, 100),
					"temp", g.between(-10, 45))
			}}},
			traffic: []requests{
				{30, func(s *session, i int) {
					s.insert("fill_levels", batch(48, func(j int) bson.D {
						return d("_id", uuid(77, i*48+j), "bin", int64(i%8), "t", minute(22_500+(i/8*48+j)*30),
							"percent", j, "temp", 9)
					})...)
				}},
				{150, func(s *session, _ int) {
					from := s.IntN(18_000)
					s.window("fill_levels", "bin", int64(s.IntN(8)), "t", minute(from), minute(from+3000))
				}},
			},
		},
		{
			name: "bid_prices", service: "adserver", pays: "series", fine: "bucket",
			why: "the mean prices of a place are stored sixty minutes at once and only read as curves of one place",
			colls: []coll{{"bid_prices", 6000, []string{"place,minute"}, func(g gen, i int) bson.D {
				return d("_id", oid(96, i), "place", key("pl", i%6), "minute", minute(i/6), "price", g.money(),
					"bids", g.between(1, 400))
			}}},
			traffic: []requests{
				{30, func(s *session, i int) {
					s.insert("bid_prices", batch(60, func(j int) bson.D {
						return d("_id", oid(97, i*60+j), "place", key("pl", i%6), "minute", minute(1000+i/6*60+j),
							"price", s.money(), "bids", 40)
					})...)
				}},
				{150, func(s *session, _ int) {
					from := s.IntN(800)
					s.window("bid_prices", "place", key("pl", s.IntN(6)), "minute", minute(from), minute(from+180))
				}},
			},
		},
		{
			name: "strøm", service: "caravan", pays: "series", fine: "bucket",
			why: "the meters of a camp send their minutes in batches of eighty, bills add up ranges, and nobody corrects a value",
			colls: []coll{{"strøm", 6000, []string{"måler,tid"}, func(g gen, i int) bson.D {
				return d("_id", int64(i), "måler", int32(i%6), "tid", minute(i/6), "watt", g.between(0, 3500),
					"volt", g.between(225, 235))
			}}},
			traffic: []requests{
				{25, func(s *session, i int) {
					s.insert("strøm", batch(80, func(j int) bson.D {
						return d("_id", int64(9000+i*80+j), "måler", int32(i%6), "tid", minute(1000+i/6*80+j), "watt", j*9,
							"volt", 230)
					})...)
				}},
				{140, func(s *session, _ int) {
					from := s.IntN(800)
					s.window("strøm", "måler", int32(s.IntN(6)), "tid", minute(from), minute(from+240))
				}},
			},
		},
		{
			name: "hőmérők", service: "bakery", pays: "bucket",
			why: "temperatures of an oven are read by range, and the baker corrects single ones by their number and adds a remark",
			colls: []coll{{"hőmérők", 5000, []string{"kemence,idő"}, func(g gen, i int) bson.D {
				return d("_id", int32(i), "kemence", key("k", i%10), "idő", minute(i/10*5), "fok", g.between(150, 260),
					"ki", g.of("A", "B"))
			}}},
			traffic: []requests{
				{25, func(s *session, i int) {
					s.insert("hőmérők", batch(24, func(j int) bson.D {
						return d("_id", int32(9000+i*24+j), "kemence", key("k", i%10), "idő", minute(2600+i/10*120+j*5),
							"fok", 220, "ki", "A")
					})...)
				}},
				{150, func(s *session, _ int) {
					from := s.IntN(2000)
					s.window("hőmérők", "kemence", key("k", s.IntN(10)), "idő", minute(from), minute(from+400))
				}},
				{40, func(s *session, _ int) {
					s.update("hőmérők", d("_id", int32(s.IntN(5000))), d("$set", d("fok", s.between(150, 260), "megj", s.text(9))))
				}},
			},
		},
		{
			name: "door_events", service: "elevators", pays: "bucket",
			why: "controllers send events again after a lost answer, so each has a number, and a day of one door is read by range",
			colls: []coll{{"door_events", 5000, []string{"evt", "door,at"}, func(g gen, i int) bson.D {
				return d("_id", oid(98, i), "evt", key("ev", i), "door", key("D", i%20), "at", minute(i/20*12),
					"what", g.of("open", "shut", "jam"))
			}}},
			traffic: []requests{
				{60, func(s *session, _ int) {
					no := 4900 + s.IntN(400)
					s.upsert("door_events", d("evt", key("ev", no)),
						d("$setOnInsert", d("door", key("D", no%20), "at", minute(no/20*12), "what", "open")))
				}},
				{160, func(s *session, _ int) {
					from := s.IntN(2000)
					s.window("door_events", "door", key("D", s.IntN(20)), "at", minute(from), minute(from+600))
				}},
			},
		},
		{
			name: "weighings", service: "waste", pays: "bucket",
			why: "the weights of a truck are read by range for the books, and the office deletes or corrects single slips by their ID",
			colls: []coll{{"weighings", 5000, []string{"truck,at"}, func(g gen, i int) bson.D {
				return d("_id", oid(99, i), "truck", int32(i%10), "at", minute(i/10*10), "kg", g.between(3000, 18_000),
					"clerk", g.of("Ida", "Jo"))
			}}},
			traffic: []requests{
				{25, func(s *session, i int) {
					s.insert("weighings", batch(20, func(j int) bson.D {
						return d("_id", oid(100, i*20+j), "truck", int32(i%10), "at", minute(5100+i/10*200+j*10),
							"kg", 9000+j, "clerk", "Ida")
					})...)
				}},
				{150, func(s *session, _ int) {
					from := s.IntN(4000)
					s.window("weighings", "truck", int32(s.IntN(10)), "at", minute(from), minute(from+800))
				}},
				{40, func(s *session, _ int) {
					s.update("weighings", d("_id", oid(99, s.IntN(5000))), d("$set", d("kg", s.between(3000, 18_000))))
				}},
				{10, func(s *session, _ int) { s.remove("weighings", d("_id", oid(99, s.IntN(5000)))) }},
			},
		},
		{
			name: "inspections_log", service: "caravan", pays: "bucket",
			why: "pool values of a camp are read by range, and staff correct a value or add who measured, by its ID, all day",
			colls: []coll{{"inspections_log", 5000, []string{"pool,when"}, func(g gen, i int) bson.D {
				return d("_id", uuid(78, i), "pool", oid(101, i%10), "when", minute(i/10*15), "ph", g.money(),
					"cl", g.between(0, 9))
			}}},
			traffic: []requests{
				{25, func(s *session, i int) {
					s.insert("inspections_log", batch(24, func(j int) bson.D {
						return d("_id", uuid(79, i*24+j), "pool", oid(101, i%10), "when", minute(7600+i/10*360+j*15),
							"ph", 7.2, "cl", 3)
					})...)
				}},
				{150, func(s *session, _ int) {
					from := s.IntN(6000)
					s.window("inspections_log", "pool", oid(101, s.IntN(10)), "when", minute(from), minute(from+1000))
				}},
				{40, func(s *session, _ int) {
					s.update("inspections_log", d("_id", uuid(78, s.IntN(5000))), d("$set", d("cl", s.between(0, 9),
						"by", s.name())))
				}},
			},
		},
		{
			name: "receipts", service: "bakery",
			why: "receipts have a till and a time, but are only ever looked up one by one by the number on them",
			colls: []coll{{"receipts", 4000, nil, func(g gen, i int) bson.D {
				return d("_id", key("rc", i), "till", i%9, "at", minute(i), "cents", g.between(90, 4000))
			}}},
			traffic: []requests{
				{160, func(s *session, _ int) { s.one("receipts", d("_id", key("rc", s.IntN(4000))), nil) }},
				{60, func(s *session, i int) {
					s.insert("receipts", d("_id", key("rc", 9000+i), "till", i%9, "at", minute(9000+i), "cents", 250))
				}},
			},
		},
		{
			name: "hive_notes", service: "apiary",
			why: "a hive gets two notes a year, so no window would ever hold the ten measurements from which buckets begin to pay",
			colls: []coll{{"hive_notes", 1200, []string{"hive,at"}, func(g gen, i int) bson.D {
				return d("_id", oid(102, i), "hive", key("N", i%400), "at", at(i/400*4300), "kg", g.money())
			}}},
			traffic: []requests{
				{150, func(s *session, _ int) { s.find("hive_notes", d("hive", key("N", s.IntN(400))), by{sort: d("at", -1)}) }},
				{8, func(s *session, i int) {
					s.insert("hive_notes", d("_id", oid(102, 9000+i), "hive", key("N", i), "at", at(15_000), "kg", 30.5))
				}},
			},
		},
		{
			name: "radiation", service: "drones",
			why: "times are numbers of milliseconds, while both packages need a BSON date, so nothing pays until they are converted",
			colls: []coll{{"radiation", 5000, []string{"probe,ms"}, func(g gen, i int) bson.D {
				return d("_id", oid(103, i), "probe", key("pb", i%5), "ms", minute(i/5).UnixMilli(), "usv", g.money())
			}}},
			traffic: []requests{
				{20, func(s *session, i int) {
					s.insert("radiation", batch(50, func(j int) bson.D {
						return d("_id", oid(104, i*50+j), "probe", key("pb", i%5), "ms", minute(1000+i/5*50+j).UnixMilli(),
							"usv", 0.1)
					})...)
				}},
				{140, func(s *session, _ int) {
					from := s.IntN(800)
					s.window("radiation", "probe", key("pb", s.IntN(5)),
						"ms", minute(from).UnixMilli(), minute(from+150).UnixMilli())
				}},
			},
		},
	}
}
