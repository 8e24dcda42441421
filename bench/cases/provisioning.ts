/** Create to active, through the registry, the job and the driver, against the same DDL in a bare loop. */
import pg from 'pg'
import { type Bench, compare, RUNS, timed } from '../measure.ts'
import { FIVE_TABLES, withTenancy } from '../tenancy.ts'

export const provisioning = {
  name: 'provisioning',
  run: ({ postgresUrl, quick, say }: Bench) =>
    withTenancy(postgresUrl, async (tenancy, url) => {
      const count = quick ? 10 : 60
      const client = new pg.Client({ connectionString: url })
      await client.connect()
      let round = 0

      const bare = async () => {
        const name = `bare${round++}`
        const ms = await timed(async () => {
          for (let n = 0; n < count; n++) {
            await client.query(
              `begin; create schema ${name}_${n}; set local search_path = ${name}_${n}; ${FIVE_TABLES}; commit`,
            )
          }
        })
        say(`bare DDL: ${Math.round((count / ms) * 1000)}/s`)
        return (count / ms) * 1000
      }
      const ours = async () => {
        const name = `ours${round++}`
        const ms = await timed(async () => {
          const ids = Array.from({ length: count }, (_, n) => `${name}-${n}`)
          await Promise.all(
            ids.map(async (id) => {
              await tenancy.tenants.create({ id, name: id })
              const { status } = await tenancy.tenants.settled(id, AbortSignal.timeout(60_000))
              if (status !== 'active') throw new Error(`${id} is ${status}`)
            }),
          )
        })
        say(`tenants: ${Math.round((count / ms) * 1000)}/s`)
        return (count / ms) * 1000
      }
      try {
        const measured = await compare(RUNS, ours, bare)
        return [
          {
            name: 'create to active, schema-pg, 5 tables',
            against: 'the same DDL in a loop',
            unit: 'tenants/s',
            ...measured,
            ratio: measured.ours / measured.reference,
            goal: 1 / 1.3,
          },
        ]
      } finally {
        await client.end()
      }
    }),
}
