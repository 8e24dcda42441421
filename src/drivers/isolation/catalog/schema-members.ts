/**
 * Lists the objects of one schema by their dependency on it, because `pg_class` has no index on the schema: queries that
 * name these objects read only this schema, in a database with any number of schemas.
 */
import pg from 'pg'

export interface SchemaMembers {
  /** `oid` of the schema. */
  readonly space: number
  /** Those of each catalog, such as `pg_class`, in order. Without objects of extensions. */
  readonly objects: ReadonlyMap<string, readonly number[]>
}

/** The query for `membersOf`, in a pinned text. */
export const membersText = (schema: string): string => `
  select n.oid as space, classid::regclass::text as class, array_agg(objid order by objid) as oids
  from pg_namespace n left join pg_depend d on refclassid = 'pg_namespace'::regclass and refobjid = n.oid and deptype = 'n' and not exists (
    select from pg_depend e where e.classid = d.classid and e.objid = d.objid and e.deptype = 'e')
  where nspname = ${pg.escapeLiteral(schema)}::text group by 1, 2 order by 2`

/** Undefined if the schema does not exist. */
export function membersOf(rows: readonly { space?: number; class?: string; oids?: number[] }[] = []) {
  const space = rows[0]?.space
  if (space === undefined) return undefined
  return { space, objects: new Map(rows.flatMap((row) => (row.class && row.oids ? [[row.class, row.oids]] : []))) }
}

/** As SQL, for `= any`. */
export const oidsOf = ({ objects }: SchemaMembers, ...classes: readonly string[]): string =>
  `'{${classes.flatMap((one) => objects.get(one) ?? []).join(',')}}'::oid[]`

export const areSameMembers = (one: SchemaMembers, other: SchemaMembers | undefined): boolean =>
  other !== undefined &&
  one.space === other.space &&
  JSON.stringify([...one.objects]) === JSON.stringify([...other.objects])
