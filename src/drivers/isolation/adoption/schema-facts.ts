/**
 * Reads the objects of one existing schema from the catalog: owners, rights, and references to and from other schemas.
 *
 * - Objects are found by their dependency on the schema, because `pg_class` has no index on the schema: the queries read
 *   only this schema, in a database with any number of schemas.
 * - Each change of a schema makes PostgreSQL plan all queries again, which takes longer than running them. So the query
 *   has only the parts that this schema needs, and reads rights as text.
 */
import pg from 'pg'
import { runPinned } from '../transactions/pinned-text.ts'
import { parseRights, type Right } from './rights.ts'

export interface ObjectFacts {
  /** For `alter … owner to`: `table`, `view`, `sequence`, `routine`, `type` or another kind. */
  readonly kind: string
  /** Qualified and quoted: `legacy.orders`, `legacy.total(integer)` */
  readonly name: string
  readonly owner: string
  /** Whether the owner follows that of a table. */
  readonly followsTable: boolean
  /** With the defaults of the kind; null for a kind without rights. */
  readonly rights: readonly Right[] | null
  /** All columns of a table. */
  readonly columns: readonly { readonly column: string; readonly rights: readonly Right[] }[]
}

export interface DefaultRights {
  /** As in `pg_default_acl.defaclobjtype`: r tables, S sequences, f functions, T types. */
  readonly type: string
  readonly role: string
  readonly rights: readonly Right[]
}

export interface SchemaFacts {
  readonly owner: string
  readonly rights: readonly Right[]
  readonly objects: readonly ObjectFacts[]
  readonly defaults: readonly DefaultRights[]
  /** Extensions that were created in the schema. */
  readonly extensions: readonly string[]
  /** Objects of other schemas that refer to objects of this one. */
  readonly referrers: readonly string[]
  /** Objects of this schema that refer to the schema of another tenant. */
  readonly references: readonly string[]
  /** Routines, operators, domains and views of other schemas that objects of this one use, and that another role owns. */
  readonly foreignRoutines: readonly string[]
  /** Owners of these objects whose rights the role of `url` does not have. */
  readonly otherOwners: readonly string[]
  /** Whether the record of an adoption, or of a migration, has the name of the schema. */
  readonly isKnown: boolean
  /** Roles of which the scope role is a member. */
  readonly rolesOfScope: readonly string[]
  /** The role of `url`, which reads them. */
  readonly reader: string
  readonly parts: readonly Part[]
}

/** Parts of the queries: kinds of objects other than tables and sequences, links to other schemas, memberships of the scope role. */
export type Part = 'routines' | 'types' | 'others' | 'links' | 'memberships'
export const ALL_PARTS: readonly Part[] = ['routines', 'types', 'others', 'links', 'memberships']

/** Classes of objects that are in the schema of their table. */
const PARTS_OF_TABLES = `'pg_rewrite'::regclass, 'pg_attrdef'::regclass, 'pg_trigger'::regclass, 'pg_policy'::regclass`

/** The schema of an object, quoted. Functions, because each look-up in a catalog makes the query longer to plan. */
const schemaOf = (classid: string, objid: string): string => `(case when ${classid} in (${PARTS_OF_TABLES})
  then quote_ident((pg_identify_object_as_address(${classid}, ${objid}, 0)).object_names[1])
  else (pg_identify_object(${classid}, ${objid}, 0)).schema end)`

/** The role that may change the code of a routine, an operator, a domain or a view; null for other objects. */
const OWNER_OF_CODE = `(case refclassid
  when 'pg_proc'::regclass then (select proowner from pg_proc where oid = refobjid)
  when 'pg_operator'::regclass then (select proowner from pg_operator o join pg_proc on pg_proc.oid = oprcode where o.oid = refobjid)
  when 'pg_type'::regclass then (
    select t.typowner from pg_type t left join pg_type e on e.oid = t.typelem where t.oid = refobjid and 'd' in (t.typtype, e.typtype))
  when 'pg_class'::regclass then (select relowner from pg_class where oid = refobjid and relkind = 'v')
  end)`

export interface FactsOptions {
  readonly parts?: readonly Part[]
  /** Whether the records of Tenantry are read: the placement's own database has their tables. */
  readonly withRecords?: boolean
}

/** The query for `factsOf`, in a pinned text. */
export function factsText(
  schema: string,
  scopeRole: string,
  { parts = [], withRecords = false }: FactsOptions,
): string {
  const [name, scope] = [schema, scopeRole].map((one) => pg.escapeLiteral(one)) as [string, string]
  const part = (one: Part, text: string): string => (parts.includes(one) ? text : '')
  const known = (table: string) => `exists (select from tenantry.${table} where locator = ${name})`
  return `
  with space as materialized (select * from pg_namespace where nspname = ${name}::text),
  content as materialized (
    select d.classid, d.objid from space
    join pg_depend d on d.refclassid = 'pg_namespace'::regclass and d.refobjid = space.oid and d.deptype = 'n'),
  member as materialized (
    select * from content where classid <> 'pg_extension'::regclass and not exists (
      select from pg_depend e where e.classid = content.classid and e.objid = content.objid and e.deptype = 'e')),
  found (classid, oid, kind, owner, acl, follows) as (
    select 'pg_class'::regclass, oid,
      case relkind when 'v' then 'view' when 'm' then 'materialized view' when 'S' then 'sequence' when 'f' then 'foreign table' else 'table' end,
      relowner, coalesce(relacl, acldefault(case relkind when 'S' then 's'::"char" else 'r' end, relowner)),
      relkind = 'S' and exists (
        select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = pg_class.oid
          and d.refclassid = 'pg_class'::regclass and d.refobjsubid > 0 and d.deptype in ('a', 'i'))
    from member join pg_class on oid = objid where classid = 'pg_class'::regclass and relkind in ('r', 'p', 'v', 'm', 'f', 'S')
    ${part(
      'routines',
      `union all
    select classid, p.oid, 'routine', proowner, coalesce(proacl, acldefault('f', proowner)), false
    from member join pg_proc p on p.oid = objid where classid = 'pg_proc'::regclass`,
    )}
    ${part(
      'types',
      `union all
    select classid, t.oid, 'type', typowner, coalesce(typacl, acldefault('T', typowner)), false
    from member join pg_type t on t.oid = objid where classid = 'pg_type'::regclass and typtype in ('b', 'c', 'd', 'e', 'r')
      and typelem = 0 and (typtype <> 'c' or (select relkind from pg_class where oid = typrelid) = 'c')`,
    )}
    ${part(
      'others',
      `union all
    select member.classid, member.objid, (pg_identify_object(member.classid, member.objid, 0)).type, coalesce(o.refobjid, 10), null::aclitem[], false
    from member left join pg_shdepend o on o.dbid = (select oid from pg_database where datname = current_database())
      and o.classid = member.classid and o.objid = member.objid and o.deptype = 'o'
    where member.classid in ('pg_collation'::regclass, 'pg_conversion'::regclass, 'pg_operator'::regclass, 'pg_opclass'::regclass,
      'pg_opfamily'::regclass, 'pg_ts_config'::regclass, 'pg_ts_dict'::regclass, 'pg_statistic_ext'::regclass)`,
    )}),
  object as materialized (select *, (pg_identify_object(classid, oid, 0)).identity as name from found),
  dependent as materialized (
    select distinct d.classid, d.objid, d.deptype from member
    join pg_depend d on d.refclassid = member.classid and d.refobjid = member.objid),
  referrer as materialized (
    select distinct classid, objid from dependent, space
    where deptype in ('n', 'a', 'P', 'S') and ${schemaOf('classid', 'objid')} <> quote_ident(nspname)),
  reference as materialized (
    select part.*, d.refclassid, d.refobjid, ${schemaOf('refclassid', 'refobjid')} as into_space
    from (select classid, objid from member union select classid, objid from dependent where deptype in ('a', 'i', 'P', 'S')) part
    cross join lateral (
      select * from pg_depend where pg_depend.classid = part.classid and pg_depend.objid = part.objid offset 0) d
    where d.deptype in ('n', 'a') and d.refobjid >= 16384
      and d.refclassid in ('pg_class'::regclass, 'pg_proc'::regclass, 'pg_type'::regclass, 'pg_operator'::regclass)
      and not exists (select from member where member.classid = d.refclassid and member.objid = d.refobjid))
  select json_build_object(
    'owner', pg_get_userbyid(nspowner), 'rights', coalesce(nspacl, acldefault('n', nspowner))::text[],
    'objects', (select coalesce(json_agg(json_build_object(
        'kind', kind, 'name', name, 'owner', pg_get_userbyid(owner), 'followsTable', follows, 'rights', acl::text[],
        'columns', (select coalesce(json_agg(json_build_object('column', quote_ident(attname), 'rights', attacl::text[]) order by attnum), '[]')
          from pg_attribute where classid = 'pg_class'::regclass and attrelid = object.oid and attnum > 0 and not attisdropped))
      order by kind, name), '[]') from object),
    'defaults', (select coalesce(json_agg(json_build_object('type', defaclobjtype, 'role', pg_get_userbyid(defaclrole),
        'rights', defaclacl::text[]) order by defaclobjtype, defaclrole), '[]') from pg_default_acl where defaclnamespace = space.oid),
    'parts', array(
      select case classid when 'pg_proc'::regclass then 'routines' when 'pg_type'::regclass then 'types' else 'others' end
      from content where classid <> 'pg_class'::regclass
      union select 'links' where exists (select from referrer)
        or exists (select from reference where into_space <> quote_ident(nspname))
      union select 'memberships' where pg_has_role(${scope}, current_user, 'member')
        or exists (select from pg_auth_members where member = to_regrole(quote_ident(${scope})))
      order by 1),
    'extensions', ${part('others', 'array(select extname from pg_extension where extnamespace = space.oid order by 1)') || NONE},
    'referrers', ${part('links', 'array(select pg_describe_object(classid, objid, 0) from referrer order by 1)') || NONE},
    'references', ${
      part(
        'links',
        `array(select distinct pg_describe_object(classid, objid, 0) from reference
      where into_space <> quote_ident(nspname) and into_space in (
        select quote_ident(n.nspname) from pg_default_acl join pg_namespace n on n.oid = defaclnamespace, aclexplode(defaclacl)
        where grantee = to_regrole(quote_ident(${scope}))) order by 1)`,
      ) || NONE
    },
    'foreignRoutines', ${
      part(
        'links',
        `array(select distinct pg_describe_object(refclassid, refobjid, 0) from reference
      join pg_roles on pg_roles.oid = ${OWNER_OF_CODE}
      where into_space <> quote_ident(nspname) and pg_roles.oid <> current_user::regrole and not rolsuper order by 1)`,
      ) || NONE
    },
    'otherOwners', array(select distinct pg_get_userbyid(role)::text from (select nspowner as role union select owner from object) owners
      where not pg_has_role(current_user, role, 'usage') and role <> 'pg_database_owner'::regrole order by 1),
    'rolesOfScope', ${
      part(
        'memberships',
        `array(select rolname::text from pg_roles where rolname <> ${scope} and pg_has_role(${scope}, oid, 'member') order by 1)`,
      ) || NONE
    },
    'isKnown', ${withRecords ? `${known('migrations')} or ${known('adoptions')}` : 'false'}, 'reader', current_user) as facts
  from space`
}

const NONE = `'{}'::text[]`

/** Undefined if the schema does not exist. The facts lack something if their `parts` are not all in the query. */
export function factsOf(rows: readonly { readonly facts?: any }[] | undefined): SchemaFacts | undefined {
  const found = rows?.[0]?.facts
  if (!found) return undefined
  const parsed = <T extends { rights: string[] | null }>(one: T) => ({ ...one, rights: one.rights && parseRights(one.rights) })
  return {
    ...parsed(found),
    objects: found.objects.map((object: any) => ({
      ...parsed(object),
      columns: object.columns.map(({ column, rights }: any) => ({ column, rights: parseRights(rights ?? []) })),
    })),
    defaults: found.defaults.map(parsed),
  }
}

/** Whether a query with these parts has read everything. */
export const hasAll = (parts: readonly Part[], facts: SchemaFacts): boolean =>
  facts.parts.every((part) => parts.includes(part))

/**
 * Returns undefined if the schema does not exist. In a transaction, which is pinned afterwards.
 *
 * @param found result of `factsText` with these options, if it was run
 */
export async function readFacts(
  client: pg.ClientBase,
  schema: string,
  scopeRole: string,
  options: FactsOptions,
  found?: SchemaFacts,
): Promise<SchemaFacts | undefined> {
  const { parts = [] } = options
  const facts = found ?? factsOf((await runPinned(client, factsText(schema, scopeRole, options)))[0]?.rows)
  if (!facts || hasAll(parts, facts)) return facts
  return readFacts(client, schema, scopeRole, { ...options, parts: [...new Set([...parts, ...facts.parts])] })
}

/** Owners, other than the role of `url` and superusers, that may create objects in the schema `public`. */
export async function creatorsInPublic(client: pg.ClientBase, schema: string, { owner, objects }: SchemaFacts) {
  const { rows } = await client.query<{ role: string }>(
    `select rolname as role from pg_roles join pg_namespace p on nspname = 'public' and nspname <> $1
     where rolname = any($2) and rolname not in (current_user, 'pg_database_owner') and not rolsuper
       and has_schema_privilege(pg_roles.oid, p.oid, 'create') order by 1`,
    [schema, [owner, ...objects.map((one) => one.owner)]],
  )
  return rows.map(({ role }) => role)
}
