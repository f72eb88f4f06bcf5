-- Once in each template (`PostgresServer.template`): the schema `reset`, with which a copy gets its content back.
-- It knows nothing of our tables. `reset."rows of NAME"` is a copy of a table that is not empty in the template.
CREATE SCHEMA reset;
CREATE TABLE reset.sequences AS
    SELECT format('public.%I', sequencename)::regclass AS sequence, start_value, last_value
    FROM pg_sequences WHERE schemaname = 'public';

DO $$
DECLARE
    name text;
    is_filled boolean;
BEGIN
    FOR name IN SELECT relname FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
    LOOP
        EXECUTE format('SELECT EXISTS (SELECT FROM public.%I)', name) INTO is_filled;
        IF is_filled THEN EXECUTE format('CREATE TABLE reset.%I AS TABLE public.%I', 'rows of ' || name, name); END IF;
    END LOOP;
END
$$;

CREATE FUNCTION reset.content() RETURNS void LANGUAGE plpgsql SET session_replication_role = replica AS $$
DECLARE
    used text;
    name text;
BEGIN
    -- By the size of the file: rows that were deleted or rolled back go as well.
    SELECT string_agg(oid::regclass::text, ', ') INTO used FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND pg_relation_size(oid) > 0;
    IF used IS NOT NULL THEN EXECUTE 'TRUNCATE ' || used || ' CASCADE'; END IF;
    FOR name IN SELECT relname FROM pg_class
        WHERE relnamespace = 'reset'::regnamespace AND relkind = 'r' AND relname LIKE 'rows of %'
    LOOP
        EXECUTE format('INSERT INTO public.%I OVERRIDING SYSTEM VALUE TABLE reset.%I', substr(name, 9), name);
    END LOOP;
    PERFORM setval(sequence, coalesce(last_value, start_value), last_value IS NOT NULL) FROM reset.sequences;
END
$$;

-- What the catalogs of this database say, except for content: rows that are newer than `reset.made`, and how many rows
-- there are. TRUNCATE changes rows of pg_class, so those count by what they say.
-- The schemas of temporary tables stay when the tables go; nobody sees them.
CREATE FUNCTION reset.fingerprint() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    made xid := (SELECT xid FROM reset.made);
    catalogs text;
    fingerprint text;
BEGIN
    SELECT string_agg(
        format('SELECT %L AS name, count(*), count(*) FILTER (WHERE age(xmin) < age($1)) AS newer FROM %1$I', relname)
        || CASE relname WHEN 'pg_namespace' THEN ' WHERE nspname !~ ''^pg_(toast_)?temp_''' ELSE '' END, ' UNION ALL ')
    INTO catalogs FROM pg_class
    WHERE relnamespace = 'pg_catalog'::regnamespace AND relkind = 'r' AND NOT relisshared AND relname <> 'pg_class';
    EXECUTE 'SELECT md5(string_agg(c::text, '';'' ORDER BY name)) FROM (' || catalogs || ') AS c'
        INTO fingerprint USING made;
    RETURN concat_ws(' ', fingerprint,
        (SELECT md5(string_agg(row(c.oid, relname, relnamespace, reltype, relowner, relam, reltablespace,
            CASE WHEN relnamespace <> 'pg_catalog'::regnamespace AND relkind IN ('r', 'p') THEN reltuples END,
            relhasindex, relpersistence, relkind, relnatts, relchecks, relhasrules, relhastriggers, relhassubclass,
            relrowsecurity, relforcerowsecurity, relreplident, relispartition, relacl, reloptions, relpartbound)::text,
            ';' ORDER BY c.oid)) FROM pg_class c),
        (SELECT md5(row(datdba, datallowconn, datconnlimit, datacl)::text) FROM pg_database
            WHERE datname = current_database()),
        (SELECT md5(string_agg(row(setrole, setconfig)::text, ';' ORDER BY setrole)) FROM pg_db_role_setting s
            JOIN pg_database d ON setdatabase = d.oid WHERE datname = current_database()));
END
$$;

CREATE TABLE reset.made AS SELECT pg_current_xact_id()::xid AS xid;  -- last: what comes later is a change
