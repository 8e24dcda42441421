/**
 * Runs two actions on one tenant concurrently. The outcome must equal that of a serial order: the same final state, the
 * same responses, and each transition published once.
 */
import { expect } from 'vitest'
import type { Tenancy } from '../../tenancy/tenancy.ts'
import { type Action, decide, MOVES, type Status } from '../tenant/lifecycle.ts'
import type { Outcome, Racer } from './racer.fixture.ts'

const CONCURRENCY = 6

interface Start {
  readonly status: Status
  /** For a deleted tenant: the status after a restore. */
  readonly before: Status | null
}

const STARTS: readonly Start[] = [
  { status: 'provisioning', before: null },
  { status: 'active', before: null },
  { status: 'suspended', before: null },
  { status: 'failed', before: null },
  { status: 'deleted', before: 'provisioning' },
  { status: 'deleted', before: 'active' },
  { status: 'deleted', before: 'suspended' },
  { status: 'deleted', before: 'failed' },
]
const ACTIONS = Object.keys(MOVES) as Action[]
const races = STARTS.flatMap((start) =>
  ACTIONS.flatMap((first, index) => ACTIONS.slice(index).map((second) => ({ start, first, second }))),
)

/** Outcome of actions in serial order, by the table of the life cycle. */
function serially(start: Start, actions: readonly Action[]) {
  let { status, before } = start
  const published: string[] = []
  const responses = actions.map((action): Outcome['response'] => {
    const decided = decide(status, action)
    if (typeof decided === 'object') {
      const to = decided.move.to === 'before' ? (before ?? 'failed') : decided.move.to
      before = to === 'deleted' ? status : null
      status = to
      published.push(`tenants.${action === 'fail' ? 'install' : action}`)
      if (decided.move.event) published.push(decided.move.event.name)
    }
    if (action === 'install' || action === 'fail') return 'nothing'
    return typeof decided === 'object' ? 'changed' : decided
  })
  return { status, responses, published: published.sort() }
}

const put = ({ kernel }: Tenancy, id: string, { status, before }: Start) =>
  kernel.database.sql(
    `with forgotten as (delete from multitenancy_jobs.job where group_id = $1)
     update multitenancy.tenants set status = $2, status_before = $3, failure = null where id = $1`,
    [id, status, before],
  )

async function race(
  tenancy: Tenancy,
  id: string,
  [one, other]: readonly [Racer['run'], Racer['run']],
  { start, first, second }: (typeof races)[number],
) {
  await put(tenancy, id, start)
  const outcomes = await Promise.all([one({ id, action: first }), other({ id, action: second })])
  const { status } = await tenancy.tenants.get(id)
  const happened = {
    status,
    responses: outcomes.map(({ response }) => response),
    // A repeated action is published as well, also if it turns out to be none.
    published: outcomes
      .flatMap(({ published }) => published)
      .filter((name) => name !== 'TenantSuspensionRepeated')
      .sort(),
  }
  const forwards = serially(start, [first, second])
  const { responses, ...rest } = serially(start, [second, first])
  const name = `${start.status} (${start.before}): ${first} and ${second}`
  expect([forwards, { ...rest, responses: responses.toReversed() }], name).toContainEqual(happened)
  if (first === second && happened.responses.includes('changed')) {
    expect(
      happened.responses.filter((word) => word === 'changed'),
      name,
    ).toHaveLength(1)
  }
}

/** Runs every pair of actions from every start, `rounds` times, on several tenants concurrently. */
export async function raceAll(
  tenancy: Tenancy,
  racers: readonly [Racer['run'], Racer['run']],
  rounds: number,
): Promise<void> {
  const all = Array.from({ length: rounds }, () => races).flat()
  const worker = async (id: string) => {
    await tenancy.tenants.create({ id, name: id })
    for (let next = all.pop(); next; next = all.pop()) await race(tenancy, id, racers, next)
  }
  const before = crypto.randomUUID().slice(0, 8)
  await Promise.all(Array.from({ length: CONCURRENCY }, (_, n) => worker(`${before}-${n}`)))
}
