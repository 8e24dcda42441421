/**
 * Two callers, one tenant, the same moment. Whatever the timing, what happened must be what happens when one comes after the
 * other: the same end, the same answers, and each move said once.
 */
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { startChild } from '../testing/child.ts'
import { type TestTenancy, testTenancy } from '../testing/tenancy.ts'
import { type Action, MOVES, type Status, verdict } from './lifecycle.ts'
import { type Outcome, openRacer, type Racer } from './racer.fixture.ts'

const ROUNDS = 8
const ROUNDS_OF_PROCESSES = 6
const LANES = 6

interface Start {
  readonly status: Status
  /** Of a deleted one: what a restore leads to. */
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

let opened: TestTenancy<[]>
beforeAll(async () => {
  opened = await testTenancy(inject('postgresUrl'), { role: 'api' })
})
afterAll(() => opened.end())

/** What comes of actions one after the other, by the table of the life cycle. */
function serially(start: Start, actions: readonly Action[]) {
  let { status, before } = start
  const said: string[] = []
  const heard = actions.map((action): Outcome['heard'] => {
    const decided = verdict(status, action)
    if (typeof decided === 'object') {
      const to = decided.move.to === 'before' ? (before ?? 'failed') : decided.move.to
      before = to === 'deleted' ? status : null
      status = to
      said.push(`tenants.${action === 'giveUp' ? 'install' : action}`)
      if (decided.move.event) said.push(decided.move.event.name)
    }
    if (action === 'install' || action === 'giveUp') return 'nothing'
    return typeof decided === 'object' ? 'changed' : decided
  })
  return { status, heard, said: said.sort() }
}

const put = (id: string, { status, before }: Start) =>
  opened.tenancy.kernel.database.sql(
    `with forgotten as (delete from multitenancy_jobs.job where group_id = $1)
     update multitenancy.tenants set status = $2, status_before = $3, failure = null where id = $1`,
    [id, status, before],
  )

async function race(
  id: string,
  [one, other]: readonly [Racer['run'], Racer['run']],
  { start, first, second }: (typeof races)[number],
) {
  await put(id, start)
  const outcomes = await Promise.all([one({ id, action: first }), other({ id, action: second })])
  const { status } = await opened.tenancy.tenants.get(id)
  const happened = {
    status,
    heard: outcomes.map(({ heard }) => heard),
    // A repeat is told of as well, also where it turns out to be none.
    said: outcomes
      .flatMap(({ said }) => said)
      .filter((name) => name !== 'TenantSuspensionRepeated')
      .sort(),
  }
  const forwards = serially(start, [first, second])
  const { heard, ...rest } = serially(start, [second, first])
  const name = `${start.status} (${start.before}): ${first} and ${second}`
  expect([forwards, { ...rest, heard: heard.toReversed() }], name).toContainEqual(happened)
  if (first === second && happened.heard.includes('changed')) {
    expect(
      happened.heard.filter((word) => word === 'changed'),
      name,
    ).toHaveLength(1)
  }
}

/** Every pair of actions from every start, `rounds` times, on several tenants side by side. */
async function raceAll(racers: readonly [Racer['run'], Racer['run']], rounds: number): Promise<void> {
  const all = Array.from({ length: rounds }, () => races).flat()
  const lane = async (id: string) => {
    await opened.tenancy.tenants.create({ id, name: id })
    for (let next = all.pop(); next; next = all.pop()) await race(id, racers, next)
  }
  const before = crypto.randomUUID().slice(0, 8)
  await Promise.all(Array.from({ length: LANES }, (_, n) => lane(`${before}-${n}`)))
}

test('two tenancies: every pair of actions from every status ends as if one had come after the other', async () => {
  const racers = await Promise.all([openRacer(opened.url), openRacer(opened.url)])
  await raceAll([racers[0].run, racers[1].run], ROUNDS)
  await Promise.all(racers.map((racer) => racer.stop()))
}, 60_000)

test('two processes: the same', async () => {
  const program = new URL('./racer-process.fixture.ts', import.meta.url)
  const options = { url: opened.url }
  const children = await Promise.all([startChild(program, options), startChild(program, options)])
  await raceAll([children[0].ask, children[1].ask], ROUNDS_OF_PROCESSES)
  await Promise.all(children.map((child) => child.kill('SIGTERM')))
}, 60_000)
