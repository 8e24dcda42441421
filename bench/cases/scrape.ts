/**
 * Benchmark of a scrape of /metrics: 100,000 tenants against 1,000. A scrape only formats values, so its time must not
 * grow.
 */
import { createHttp } from '../../src/index.ts'
import { type Bench, compare, median, RUNS, timed } from '../measure.ts'
import { fillRegistry, TOKEN, withTenancy } from '../tenancy.ts'

export const scrape = {
  name: 'scrape',
  run: ({ postgresUrl, quick }: Bench) =>
    withTenancy(postgresUrl, (small) =>
      withTenancy(postgresUrl, async (large) => {
        await fillRegistry(small, 1_000)
        await fillRegistry(large, quick ? 5_000 : 100_000)
        const scraper = (tenancy: typeof small) => {
          const http = createHttp(tenancy, { adminTokens: [{ name: 'bench', token: TOKEN }] })
          const once = async () => (await http.fetch(new Request('http://bench.test/metrics'))).text()
          return async () => {
            await once()
            const times: number[] = []
            for (let n = 0; n < 50; n++) times.push(await timed(once))
            return median(times)
          }
        }
        const measured = await compare(RUNS, scraper(large), scraper(small))
        return [
          {
            name: 'scrape of /metrics, 100,000 tenants',
            against: 'the same with 1,000',
            unit: 'ms',
            ...measured,
            ratio: measured.reference / measured.ours,
            goal: 0.8,
          },
          { name: 'scrape of /metrics, 100,000 tenants', value: `${measured.ours.toFixed(2)} ms`, goal: 'under 50 ms' },
        ]
      }),
    ),
}
