/** Benchmark of the tenant list: page 2,000 against page 1, with 100,000 tenants. */
import { type Bench, compare, RUNS, timed } from '../measure.ts'
import { fillRegistry, withTenancy } from '../tenancy.ts'

const LIMIT = 50

export const paging = {
  name: 'paging',
  run: ({ postgresUrl, quick }: Bench) =>
    withTenancy(postgresUrl, async (tenancy) => {
      const tenants = quick ? 5_000 : 100_000
      const lastPage = tenants / LIMIT
      const reads = quick ? 20 : 200
      await fillRegistry(tenancy, tenants)
      let cursor: string | undefined
      for (let page = 1; page < lastPage; page++) {
        cursor = (await tenancy.tenants.list({ limit: LIMIT, cursor })).nextCursor ?? undefined
      }
      const page = (cursor: string | undefined) => async () =>
        (reads /
          (await timed(async () => {
            for (let n = 0; n < reads; n++) await tenancy.tenants.list({ limit: LIMIT, cursor })
          }))) *
        1000
      const measured = await compare(RUNS, page(cursor), page(undefined))
      return [
        {
          name: `tenant list, page ${lastPage} of ${tenants} tenants`,
          against: 'page 1',
          unit: 'pages/s',
          ...measured,
          ratio: measured.ours / measured.reference,
          goal: 0.8,
        },
      ]
    }),
}
