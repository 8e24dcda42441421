/** Refreshes materialised views after a change of rows, each one after the views that it reads. */
import type pg from 'pg'
import { all, relationsOf } from '../catalog/tables.ts'

export interface View {
  readonly id: string
  /** Qualified and quoted. */
  readonly name: string
  readonly isMaterialized: boolean
  /** OIDs of the relations that it reads. */
  readonly reads: readonly string[]
}

export async function refreshViews(client: pg.ClientBase, schema: string): Promise<void> {
  const { rows } = await client.query<View>(
    `
    with ${relationsOf(schema)}
    select oid::text as id, format('%I.%I', $1::text, relname) as name, relkind = 'm' as "isMaterialized", array(
      select distinct refobjid::text from pg_rewrite r
      join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid
      where ev_class = relation.oid and refclassid = 'pg_class'::regclass and refobjid <> relation.oid) as reads
    from relation where relkind in ('v', 'm') order by oid`,
    [schema],
  )
  await all(client, ...inOrder(rows).map(({ name }) => `refresh materialized view ${name}`))
}

/** The materialised views, each one after those that it reads, directly or through views. */
export function inOrder(views: readonly View[]): View[] {
  const placed = new Set<View>()
  const place = (view: View): void => {
    if (placed.has(view)) return
    for (const id of view.reads) for (const read of views) if (read.id === id) place(read)
    placed.add(view)
  }
  for (const view of views) place(view)
  return [...placed].filter(({ isMaterialized }) => isMaterialized)
}
