//! The functions that both servers have built in, and the words that may stand before a parenthesis
//! without calling anything. What is not here is unknown, and an unknown call is not harmless.
//!
//! Sources: the function references of MySQL (<https://dev.mysql.com/doc/refman/9.6/en/built-in-function-reference.html>)
//! and MariaDB (<https://mariadb.com/kb/en/function-and-operator-reference/>). Every entry that MySQL 9.7 and
//! MariaDB 10.11 have was tried there against a stored function of the same name, with none to three
//! arguments: an unqualified, unquoted call never reached the stored one. Entries of other versions are from
//! the references alone.

use super::facts::Facts;
use super::{Dialect, Flavor};
use std::collections::HashMap;
use std::sync::LazyLock;

/// What a call of the unqualified, unquoted `name` (lower case) says about its statement. `touching`: the
/// parenthesis follows without a blank.
pub(super) fn effect(name: &str, touching: bool, dialect: Dialect) -> Facts {
    match NATIVE.get(name) {
        Some(native) if native.is_in(dialect) && (touching || !native.touching) => native.effect,
        _ => UNKNOWN,
    }
}

/// Whether the unquoted `word` (lower case) may stand before a parenthesis and can never be a call.
pub(super) fn is_syntax(word: &str, flavor: Flavor) -> bool {
    SYNTAX.contains_key(word) || flavor == Flavor::MySql && matches!(word, "lateral" | "of")
}

/// A call of something that the servers do not have built in: it may do anything.
pub(super) const UNKNOWN: Facts = Facts::UNSAFE_FUNCTION.and(Facts::MAY_WRITE);

/// A built-in function.
#[derive(Clone, Copy)]
struct Native {
    /// The MySQL versions that have it: from, and before.
    mysql: Option<(u32, u32)>,
    /// The MariaDB versions that have it: from.
    maria: Option<u32>,
    /// With a blank before the parenthesis it is a stored function (unless `sql_mode` has IGNORE_SPACE).
    touching: bool,
    effect: Facts,
}

impl Native {
    fn is_in(self, dialect: Dialect) -> bool {
        match dialect.flavor {
            Flavor::MySql => {
                self.mysql.is_some_and(|(from, before)| (from..before).contains(&dialect.version))
            }
            Flavor::MariaDb => self.maria.is_some_and(|from| from <= dialect.version),
        }
    }
}

static SYNTAX: LazyLock<HashMap<&'static str, ()>> =
    LazyLock::new(|| SYNTAX_WORDS.split_whitespace().map(|word| (word, ())).collect());

static NATIVE: LazyLock<HashMap<&'static str, Native>> = LazyLock::new(|| {
    let everywhere =
        Native { mysql: Some((0, u32::MAX)), maria: Some(0), touching: false, effect: Facts::empty() };
    let mut table = HashMap::new();
    let mut add = |names: &'static str, native: Native| {
        for name in names.split_whitespace() {
            let known: &mut Native = table.entry(name).or_insert(native);
            // A name may be in the lists of both servers.
            known.mysql = known.mysql.or(native.mysql);
            known.maria = known.maria.or(native.maria);
        }
    };
    add(HARMLESS, everywhere);
    add(TOUCHING, Native { touching: true, ..everywhere });
    for (effect, names) in TELLING {
        add(names, Native { effect, ..everywhere });
    }
    for (since, names) in MYSQL {
        add(names, Native { mysql: Some((since, u32::MAX)), maria: None, ..everywhere });
    }
    for (since, names) in MARIADB {
        add(names, Native { mysql: None, maria: Some(since), ..everywhere });
    }
    add(MYSQL_8_ONLY, Native { mysql: Some((0, 90_000)), maria: None, ..everywhere });
    table
});

/// In every supported version of both servers.
const HARMLESS: &str = "abs acos addtime aes_decrypt aes_encrypt ascii asin atan atan2 avg bin bit_count bit_length ceil ceiling \
    char char_length character_length charset coalesce coercibility collation compress concat concat_ws conv \
    convert convert_tz cos cot crc32 current_date current_time current_timestamp current_user database date \
    date_format datediff day dayname dayofmonth dayofweek dayofyear degrees elt exp export_set  \
    field find_in_set floor format from_base64 from_days from_unixtime greatest hex hour if ifnull \
    inet6_aton inet6_ntoa inet_aton inet_ntoa insert instr is_ipv4 is_ipv4_compat is_ipv4_mapped is_ipv6 \
    isnull json_array json_array_append json_array_insert json_contains json_contains_path json_depth \
    json_extract json_insert json_keys json_length json_merge json_merge_patch json_merge_preserve \
    json_object json_quote json_remove json_replace json_search json_set json_type json_unquote json_valid \
    last_day lcase least left length ln localtime localtimestamp locate log log10 log2 lower lpad ltrim \
    make_set makedate maketime mbrcontains mbrdisjoint mbrequals mbrintersects mbroverlaps mbrtouches \
    mbrwithin microsecond minute mod month monthname name_const nullif oct octet_length ord period_add \
    period_diff pi pow power quarter quote radians rand regexp_instr regexp_replace regexp_substr repeat \
    replace reverse right round rpad rtrim schema sec_to_time second sha2 sign sin soundex space sqrt \
    st_area st_asbinary st_asgeojson st_astext st_aswkb st_aswkt st_buffer st_centroid st_contains \
    st_convexhull st_crosses st_difference st_dimension st_disjoint st_distance st_distance_sphere \
    st_endpoint st_envelope st_equals st_exteriorring st_geomcollfromtext st_geomcollfromwkb \
    st_geometrycollectionfromtext st_geometrycollectionfromwkb st_geometryfromtext st_geometryfromwkb \
    st_geometryn st_geometrytype st_geomfromgeojson st_geomfromtext st_geomfromwkb st_interiorringn \
    st_intersection st_intersects st_isclosed st_isempty st_issimple st_length st_linefromtext \
    st_linefromwkb st_linestringfromtext st_linestringfromwkb st_numgeometries st_numinteriorrings \
    st_numpoints st_overlaps st_pointfromtext st_pointfromwkb st_pointn st_polyfromtext st_polyfromwkb \
    st_polygonfromtext st_polygonfromwkb st_srid st_startpoint st_symdifference st_touches st_union \
    st_within st_x st_y str_to_date strcmp substring_index subtime tan time time_format time_to_sec timediff \
    timestamp timestampadd timestampdiff to_base64 to_days to_seconds truncate ucase uncompress \
    uncompressed_length unhex unix_timestamp upper user utc_date utc_time utc_timestamp uuid \
    values version week weekday weekofyear weight_string year yearweek";

/// The same, but only with the parenthesis right after the name.
const TOUCHING: &str = "adddate bit_and bit_or bit_xor cast count cume_dist curdate curtime date_add date_sub dense_rank extract \
    first_value group_concat json_arrayagg json_objectagg lag last_value lead max mid min now nth_value \
    ntile percent_rank position rank row_number session_user std stddev stddev_pop stddev_samp subdate \
    substr substring sum sysdate system_user trim var_pop var_samp variance";

/// In MySQL since a version. MariaDB has some of them too, but there a stored function can take the name
/// (`POINT` and the other constructors, with no argument).
const MYSQL: [(u32, &str); 10] = [
    (
        80_000,
        "any_value bin_to_uuid geomcollection geometrycollection grouping icu_version is_uuid json_pretty \
    json_storage_free json_storage_size json_table linestring mbrcoveredby mbrcovers multilinestring \
    multipoint multipolygon point polygon random_bytes st_geohash st_isvalid st_latfromgeohash \
    st_longfromgeohash st_makeenvelope st_mlinefromtext st_mlinefromwkb st_mpointfromtext st_mpointfromwkb \
    st_mpolyfromtext st_mpolyfromwkb st_multilinestringfromtext st_multilinestringfromwkb \
    st_multipointfromtext st_multipointfromwkb st_multipolygonfromtext st_multipolygonfromwkb \
    st_numinteriorring st_pointfromgeohash st_simplify st_swapxy st_validate uuid_to_bin",
    ),
    (80_004, "regexp_like"),
    (80_012, "st_latitude st_longitude"),
    (80_013, "st_transform"),
    (80_016, "format_bytes format_pico_time"),
    (80_017, "json_overlaps json_schema_valid json_schema_validation_report"),
    (80_021, "json_value"),
    (80_023, "st_frechetdistance st_hausdorffdistance"),
    (80_024, "st_lineinterpolatepoint st_lineinterpolatepoints st_pointatdistance"),
    (90_000, "from_vector string_to_vector to_vector vector_dim vector_to_string"),
];

/// In MariaDB since a version.
const MARIADB: [(u32, &str); 10] = [
    (
        100_600,
        "chr column_add column_check column_create column_delete column_exists column_get column_json column_list \
    decode_histogram json_compact json_detailed json_exists json_loose json_query json_value lengthb md5 nvl nvl2 sha \
    sha1 st_boundary st_isring st_pointonsurface st_relate",
    ),
    (100_601, "add_months rownum sys_guid to_char"),
    (100_700, "json_equals json_normalize natural_sort_key sformat"),
    (100_800, "crc32c"),
    (100_900, "json_overlaps"),
    (101_000, "random_bytes"),
    (101_003, "json_pretty"),
    (110_100, "json_schema_valid"),
    (110_200, "json_array_intersect json_object_filter_keys json_object_to_array"),
    (110_700, "vec_distance vec_distance_cosine vec_distance_euclidean vec_fromtext vec_totext"),
];

/// Gone from MySQL 9.7, where a component or anyone's stored function may take the name. Which 9.x dropped
/// them was not looked up.
const MYSQL_8_ONLY: &str = "md5 sha sha1";

/// Built in, but the answer is about this connection or server, or the call waits, locks or reads files, or
/// (EXTRACTVALUE, UPDATEXML: `$@name` in an XPath) user variables that the text need not show.
/// Those with no version of their own are refused by a server that lacks them.
const TELLING: [(Facts, &str); 3] = [
    (Facts::LAST_RESULT, "found_rows last_insert_id row_count"),
    (Facts::CONNECTION_LOCAL, "connection_id current_role"),
    (
        Facts::UNSAFE_FUNCTION,
        "benchmark extractvalue get_lock is_free_lock is_used_lock load_file master_pos_wait release_all_locks \
         release_lock sleep updatexml uuid_short",
    ),
];

/// Words of the grammar in both servers.
const SYNTAX_WORDS: &str = "all and any as between bigint binary by case char character datetime dec decimal distinct distinctrow \
    div double else except exists float from group having high_priority in index int integer intersect \
    interval join key like limit match mediumint mod nchar not numeric on or over partition real regexp \
    return rlike row select signed smallint some sql_big_result sql_calc_found_rows sql_small_result \
    straight_join then tinyint union unsigned using value varbinary varchar when \
    where with xor";

#[cfg(test)]
mod tests {
    use super::*;

    fn on(flavor: Flavor, version: u32) -> Dialect {
        Dialect { flavor, version, ansi_quotes: false, no_backslash_escapes: false, ascii_safe: true }
    }

    #[test]
    fn calls_depend_on_server_version_and_blank() {
        let mysql = on(Flavor::MySql, 80_036);
        let newest = on(Flavor::MySql, 90_704);
        let maria = on(Flavor::MariaDb, 101_119);
        let none = Facts::empty();
        for (name, touching, dialect, expected) in [
            ("abs", true, mysql, none),
            ("abs", false, maria, none),
            ("count", true, mysql, none),
            ("count", false, mysql, UNKNOWN),
            ("rank", false, maria, UNKNOWN),
            ("md5", true, mysql, none),
            ("md5", true, newest, UNKNOWN),
            ("md5", true, maria, none),
            ("uuid_to_bin", true, mysql, none),
            ("uuid_to_bin", true, maria, UNKNOWN),
            ("vector_dim", true, mysql, UNKNOWN),
            ("vector_dim", true, newest, none),
            ("nvl", true, mysql, UNKNOWN),
            ("nvl", true, maria, none),
            ("json_overlaps", true, maria, none),
            ("json_overlaps", true, on(Flavor::MariaDb, 100_600), UNKNOWN),
            ("point", true, maria, UNKNOWN),
            ("sleep", true, mysql, Facts::UNSAFE_FUNCTION),
            ("extractvalue", true, maria, Facts::UNSAFE_FUNCTION),
            ("connection_id", true, maria, Facts::CONNECTION_LOCAL),
            ("found_rows", true, maria, Facts::LAST_RESULT),
            ("nextval", true, maria, UNKNOWN),
            ("default", true, maria, UNKNOWN),
            ("my_function", true, mysql, UNKNOWN),
        ] {
            assert_eq!(effect(name, touching, dialect), expected, "{name} on {dialect:?}");
        }
        assert!(is_syntax("lateral", Flavor::MySql) && !is_syntax("lateral", Flavor::MariaDb));
    }

    #[test]
    fn no_name_is_in_two_lists_of_one_server() {
        let lists = [HARMLESS, TOUCHING, SYNTAX_WORDS, TELLING[0].1, TELLING[1].1, TELLING[2].1];
        for list in [&MYSQL[..], &MARIADB[..]] {
            let own = list.iter().map(|(_, names)| *names);
            let mut seen = std::collections::HashSet::new();
            for name in lists.into_iter().chain(own).flat_map(str::split_whitespace) {
                assert!(
                    seen.insert(name) || matches!(name, "char" | "float" | "double" | "mod" | "value"),
                    "{name}"
                );
            }
        }
    }
}
