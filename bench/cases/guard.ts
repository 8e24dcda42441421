/** Benchmark of the guard: tenant resolution, authorization and the handle, with a warm registry cache. */

import { runGuard } from '../../src/http/hosts/guarded.ts'
import { currentContext } from '../../src/index.ts'
import { fromHeader, type GuardedRequest } from '../../src/tenants/guard/strategies.ts'
import { type Bench, median, type Result } from '../measure.ts'
import { installAll, withTenancy } from '../tenancy.ts'

const TENANTS = 50
const BATCH = 1_000

export const guardAlone = {
  name: 'guard',
  run: ({ postgresUrl, quick }: Bench): Promise<Result[]> =>
    withTenancy(postgresUrl, async (tenancy) => {
      const ids = Array.from({ length: TENANTS }, (_, n) => `tenant-${n}`)
      await installAll(tenancy, ids)
      for (const id of ids) await tenancy.tenant(id)
      const guard = tenancy.guard({ resolve: fromHeader(), authorize: () => true, ignore: ['/health'] })
      const requests = ids.map((id) => requestOf(id))
      let admitted = 0
      const admit = (request: GuardedRequest) => {
        const decision = guard.admit(request)
        if (!(decision instanceof Promise) && decision.tenant) admitted++
      }
      const passed = (request: GuardedRequest) =>
        runGuard(guard, request, '127.0.0.1', {
          admitted: () => {
            if (currentContext().tenantId) admitted++
          },
          rejected: (error) => {
            throw error
          },
        })
      const batches = quick ? 50 : 500
      const alone = microseconds(batches, requests, admit)
      const within = microseconds(batches, requests, passed)
      if (admitted !== batches * BATCH * 2) throw new Error('a request was not admitted synchronously')
      return [
        { name: 'guard: resolve, check, handle', value: `${alone.toFixed(2)} µs`, goal: 'under 5 µs' },
        { name: 'the same with the request’s context', value: `${within.toFixed(2)} µs`, goal: 'under 5 µs' },
      ]
    }),
}

/** Microseconds of one call: the median of batches, because the clock is too coarse for one call. */
function microseconds(
  batches: number,
  requests: readonly GuardedRequest[],
  work: (request: GuardedRequest) => void,
): number {
  const times = Array.from({ length: batches }, () => {
    const started = performance.now()
    for (let n = 0; n < BATCH; n++) work(requests[n % requests.length] as GuardedRequest)
    return ((performance.now() - started) / BATCH) * 1_000
  })
  return median(times)
}

const requestOf = (tenantId: string): GuardedRequest => ({
  raw: undefined,
  method: 'GET',
  path: '/notes',
  host: 'app.example.com',
  header: (name) => (name === 'x-tenant-id' ? tenantId : undefined),
})
