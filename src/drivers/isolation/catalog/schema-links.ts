/** Finds references between the objects of one schema and those of other schemas, and memberships of the scope role. */
import pg from 'pg'
import { runPinned } from '../transactions/pinned-text.ts'
import { oidsOf, type SchemaMembers } from './schema-members.ts'

export interface SchemaLinks {
  /** Extensions that were created in the schema. */
  readonly extensions: readonly string[]
  /** Objects of other schemas that refer to objects of this one. */
  readonly referrers: readonly string[]
  /** Objects of this schema that refer to the schema of another tenant. */
  readonly references: readonly string[]
  /** Routines, operators, domains and views of other schemas that objects of this one use, and that another role owns. */
  readonly foreignRoutines: readonly string[]
  /** Roles of which the scope role is a member. */
  readonly rolesOfScope: readonly string[]
}

export const NO_LINKS: SchemaLinks = {
  extensions: [],
  referrers: [],
  references: [],
  foreignRoutines: [],
  rolesOfScope: [],
}

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

/**
 * Common table expressions. `referrer`: objects outside of the schema that depend on its members. `reference`: objects
 * outside of it on which its members depend, or parts of them such as constraints, views and expressions of indexes.
 */
function linked(members: SchemaMembers, schema: string): string {
  const classes = [...members.objects.keys()].filter((one) => one !== 'pg_extension')
  const isMember = (classid: string, objid: string): string =>
    classes.map((one) => `${classid} = '${one}'::regclass and ${objid} = any(${oidsOf(members, one)})`).join(' or ') ||
    'false'
  const all = classes
    .map((one) => `select '${one}'::regclass::oid, unnest(${oidsOf(members, one)}) union all`)
    .join(' ')
  const name = `quote_ident(${pg.escapeLiteral(schema)})`
  return `
  with dependent as materialized (
    select distinct classid, objid, deptype from pg_depend where ${isMember('refclassid', 'refobjid')}),
  referrer as (
    select classid, objid from dependent where deptype in ('n', 'a', 'P', 'S') and ${schemaOf('classid', 'objid')} <> ${name}),
  part (classid, objid) as (
    ${all} select classid, objid from dependent where deptype in ('a', 'i', 'P', 'S')
    union all select 'pg_class'::regclass, indexrelid from pg_index where indrelid = any(${oidsOf(members, 'pg_class')})),
  reference as (
    select part.*, refclassid, refobjid from part cross join lateral (
      select * from pg_depend where pg_depend.classid = part.classid and pg_depend.objid = part.objid offset 0) d
    where deptype in ('n', 'a') and refobjid >= 16384
      and refclassid in ('pg_class'::regclass, 'pg_proc'::regclass, 'pg_type'::regclass, 'pg_operator'::regclass)
      and not (${isMember('refclassid', 'refobjid')}) and ${schemaOf('refclassid', 'refobjid')} <> ${name})`
}

/**
 * Whether there are any: the query for `linksOf`, in a pinned text.
 *
 * @param schema name of the schema of `members`
 */
export const hasLinksText = (members: SchemaMembers, schema: string, scopeRole: string): string => {
  const scope = pg.escapeLiteral(scopeRole)
  return `${linked(members, schema)}
  select exists (select from referrer) or exists (select from reference) or pg_has_role(${scope}, current_user, 'member')
    or exists (select from pg_auth_members where member = to_regrole(quote_ident(${scope}))) as "hasLinks"`
}

const linksText = (members: SchemaMembers, schema: string, scopeRole: string): string => {
  const scope = pg.escapeLiteral(scopeRole)
  return `${linked(members, schema)}
  select array(select extname::text from pg_extension where extnamespace = ${members.space} order by 1) as extensions,
    array(select distinct pg_describe_object(classid, objid, 0) from referrer order by 1) as referrers,
    array(select distinct pg_describe_object(classid, objid, 0) from reference
      where ${schemaOf('refclassid', 'refobjid')} in (
        select quote_ident(n.nspname) from pg_default_acl join pg_namespace n on n.oid = defaclnamespace, aclexplode(defaclacl)
        where grantee = to_regrole(quote_ident(${scope}))) order by 1) as references,
    array(select distinct pg_describe_object(refclassid, refobjid, 0) from reference join pg_roles on pg_roles.oid = ${OWNER_OF_CODE}
      where pg_roles.oid <> current_user::regrole and not rolsuper order by 1) as "foreignRoutines",
    array(select rolname::text from pg_roles where rolname <> ${scope} and pg_has_role(${scope}, oid, 'member') order by 1) as "rolesOfScope"`
}

/**
 * Reads them only if there are any. In a transaction.
 *
 * @param found result of `hasLinksText`
 */
export async function linksOf(
  client: pg.ClientBase,
  members: SchemaMembers,
  schema: string,
  scopeRole: string,
  found: readonly { readonly hasLinks?: boolean }[] | undefined,
): Promise<SchemaLinks> {
  if (found?.[0]?.hasLinks === false && !members.objects.has('pg_extension')) return NO_LINKS
  const [result] = await runPinned(client, linksText(members, schema, scopeRole))
  return result?.rows[0]
}
