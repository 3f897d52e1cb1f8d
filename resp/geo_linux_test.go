package resp

import "testing"

func TestGeo(t *testing.T) {
	r := newRig(t, rigOptions{})
	c := r.dial()
	c.want(":2\r\n", "GEOADD", "g", "13.361389", "38.115556", "Palermo", "15.087269", "37.502669", "Catania")
	c.want(":1\r\n", "GEOADD", "g", "XX", "CH", "13.5", "38.2", "Palermo", "1", "1", "nowhere")
	c.want(":0\r\n", "GEOADD", "g", "NX", "13.361389", "38.115556", "Palermo")
	c.do("GEOADD", "g", "13.361389", "38.115556", "Palermo")
	c.want(bulk("166274.1516"), "GEODIST", "g", "Palermo", "Catania")
	c.want(bulk("103.3182"), "GEODIST", "g", "Palermo", "Catania", "mi")
	c.want("$-1\r\n", "GEODIST", "g", "Palermo", "none")
	c.want("*3\r\n"+bulk("sqc8b49rny0")+"$-1\r\n"+bulk("sqdtr74hyu0"), "GEOHASH", "g", "Palermo", "none", "Catania")
	c.want("*2\r\n"+array("*", "13.36138933897018433", "38.11555639549629859")+"*-1\r\n", "GEOPOS", "g", "Palermo", "none")
	c.want(array("*", "Catania", "Palermo"), "GEOSEARCH", "g", "FROMLONLAT", "15", "37", "BYRADIUS", "200", "km", "ASC")
	c.want(array("*", "Palermo", "Catania"), "GEORADIUS", "g", "15", "37", "200", "km", "DESC")
	c.want(array("*", "Catania"), "GEORADIUSBYMEMBER_RO", "g", "Catania", "1", "m")
	c.want("*1\r\n*4\r\n"+bulk("Catania")+bulk("56.4413")+":3479447370796909\r\n"+array("*", "15.08726745843887329", "37.50266842333162032"),
		"GEOSEARCH", "g", "FROMLONLAT", "15", "37", "BYBOX", "400", "400", "km", "WITHCOORD", "WITHDIST", "WITHHASH", "COUNT", "1")
	c.want(":2\r\n", "GEOSEARCHSTORE", "d", "g", "FROMMEMBER", "Palermo", "BYRADIUS", "200", "km", "STOREDIST")
	c.want(array("*", "Palermo", "0", "Catania", "166.27415156960032"), "ZRANGE", "d", "0", "-1", "WITHSCORES")
	c.want(":1\r\n", "GEORADIUS", "g", "15", "37", "200", "km", "COUNT", "1", "ANY", "STORE", "g") // over its own source
	c.want(":1\r\n", "ZCARD", "g")
	c.want(":0\r\n", "GEORADIUSBYMEMBER", "none", "x", "1", "m", "STORE", "d")
	c.want(":0\r\n", "EXISTS", "d")
	c.want("-ERR invalid longitude,latitude pair 181.000000,inf\r\n", "GEOADD", "g", "181", "inf", "x")
	c.want("-ERR COUNT must be > 0\r\n", "GEOSEARCH", "g", "FROMLONLAT", "1", "1", "BYRADIUS", "1", "m", "COUNT", "0")
	c.do("HELLO", "3")
	c.do("GEOADD", "h", "13.361389", "38.115556", "x")
	c.want("*1\r\n*2\r\n,13.36138933897018433\r\n,38.11555639549629859\r\n", "GEOPOS", "h", "x")
}
