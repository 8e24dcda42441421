import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { CallWindow } from './call-window.ts'
import { CIRCUIT_RULE, Circuit, type CircuitState, type Outcome } from './circuit.ts'

const START = Date.parse('2026-01-01T00:00:00Z')

/** A circuit and the seconds since its first call. */
const circuitAtZero = () => {
  const circuit = new Circuit(CIRCUIT_RULE)
  const at = (seconds: number) => START + seconds * 1_000
  return {
    circuit,
    at,
    ended: (outcome: Outcome, seconds: number) => circuit.settle(circuit.era, outcome, at(seconds)),
    stateAt: (seconds: number) => circuit.stateAt(at(seconds)),
    async opened() {
      for (let n = 0; n < 10; n++) await circuit.settle(circuit.era, 'failure', at(0))
      return this
    },
  }
}

describe('a closed circuit', () => {
  test.each<[string, Outcome[], CircuitState]>([
    ['nine failures', Array(9).fill('failure'), 'CLOSED'],
    ['ten failures', Array(10).fill('failure'), 'OPEN'],
    ['five of ten, the last one too', [...Array(5).fill('success'), ...Array(5).fill('failure')], 'OPEN'],
    ['four of ten', [...Array(6).fill('success'), ...Array(4).fill('failure')], 'CLOSED'],
    ['calls without a result', Array(20).fill('neither'), 'CLOSED'],
    [
      'nine failures among calls without a result',
      Array(18).fill(['failure', 'neither']).flat().slice(0, 18),
      'CLOSED',
    ],
  ])('after %s', async (_, outcomes, state) => {
    const { circuit, ended, stateAt } = circuitAtZero()
    for (const outcome of outcomes) await ended(outcome, 0)
    expect(stateAt(0)).toBe(state)
    expect(circuit.isClosed).toBe(state === 'CLOSED')
  })

  test('opens once when many calls fail concurrently', async () => {
    const { ended } = circuitAtZero()
    const changes = await Promise.all(Array.from({ length: 50 }, () => ended('failure', 0)))
    expect(changes.filter((change) => change !== undefined)).toEqual(['opened'])
  })

  test('ignores calls before its window, also after an idle hour', async () => {
    const { ended, stateAt } = circuitAtZero()
    for (let n = 0; n < 9; n++) await ended('failure', 0)
    await ended('failure', 10)
    await ended('failure', 3_600)
    for (let n = 0; n < 8; n++) await ended('failure', 3_601)
    expect(stateAt(3_601)).toBe('CLOSED')
    await ended('failure', 3_609)
    expect(stateAt(3_609)).toBe('OPEN')
  })
})

describe('an open circuit', () => {
  test('is half-open after 30 seconds, and closed after five minutes without a call', async () => {
    const { circuit, stateAt, at } = await circuitAtZero().opened()
    expect([0, 29.999, 30, 299.999, 300].map(stateAt)).toEqual(['OPEN', 'OPEN', 'HALF_OPEN', 'HALF_OPEN', 'CLOSED'])
    expect([0, 20, 29.5, 30, 31].map((seconds) => circuit.rejectedForMs(at(seconds)))).toEqual([
      30_000, 10_000, 500, 0, 0,
    ])
    expect(circuit.openedAtMs).toBe(at(0))
  })

  test('ignores calls that began before it opened', async () => {
    const { circuit, at, stateAt } = circuitAtZero()
    const before = circuit.era
    for (let n = 0; n < 10; n++) await circuit.settle(before, 'failure', at(0))
    for (const outcome of ['failure', 'success'] as const) {
      expect(await circuit.settle(before, outcome, at(20))).toBeUndefined()
    }
    expect(circuit.openedAtMs).toBe(at(0))
    circuit.beginProbe(at(30))
    expect(await circuit.settle(before, 'success', at(31))).toBeUndefined()
    expect(stateAt(31)).toBe('HALF_OPEN')
    expect(await circuit.settle(circuit.era, 'success', at(32))).toBe('closed')
    for (let n = 0; n < 20; n++) {
      await circuit.settle(before, 'failure', at(33))
      circuit.succeeded(before, at(33))
    }
    expect(stateAt(33)).toBe('CLOSED')
    for (let n = 0; n < 10; n++) await circuit.settle(circuit.era, 'failure', at(33))
    expect(stateAt(33)).toBe('OPEN')
  })
})

describe('a probe', () => {
  test.each<[Outcome, string, CircuitState[]]>([
    ['success', 'closed', ['CLOSED', 'CLOSED', 'CLOSED']],
    ['failure', 'opened', ['OPEN', 'OPEN', 'HALF_OPEN']],
    ['neither', 'undecided', ['HALF_OPEN', 'HALF_OPEN', 'HALF_OPEN']],
  ])('that ends with %s', async (outcome, transition, states) => {
    const { circuit, at, ended, stateAt } = await circuitAtZero().opened()
    circuit.beginProbe(at(30))
    expect(stateAt(30)).toBe('HALF_OPEN')
    expect(circuit.rejectedForMs(at(30))).toBe(1_000)
    expect(await ended(outcome, 31)).toBe(transition)
    expect([31, 60, 61].map(stateAt)).toEqual(states)
    expect(circuit.rejectedForMs(at(61))).toBe(0)
  })

  test('that succeeds resets the counts: ten more failures open the circuit, nine do not', async () => {
    const { circuit, at, ended, stateAt } = await circuitAtZero().opened()
    circuit.beginProbe(at(30))
    await ended('success', 30)
    for (let n = 0; n < 9; n++) await ended('failure', 30)
    expect(stateAt(30)).toBe('CLOSED')
    await ended('failure', 30)
    expect(stateAt(30)).toBe('OPEN')
  })

  test('without a result is abandoned, and its late result has no effect', async () => {
    const { circuit, at, ended, stateAt } = await circuitAtZero().opened()
    circuit.beginProbe(at(30))
    const lost = circuit.era
    expect(circuit.rejectedForMs(at(59))).toBe(1_000)
    expect(circuit.rejectedForMs(at(60))).toBe(0)
    circuit.beginProbe(at(60))
    expect(await circuit.settle(lost, 'success', at(61))).toBeUndefined()
    expect(stateAt(61)).toBe('HALF_OPEN')
    expect(await ended('failure', 62)).toBe('opened')
  })

  test('can be overtaken by the state of another process', async () => {
    const { circuit, at, stateAt } = await circuitAtZero().opened()
    circuit.beginProbe(at(30))
    const { era } = circuit
    circuit.close(at(31))
    expect(await circuit.settle(era, 'failure', at(32))).toBeUndefined()
    expect(stateAt(32)).toBe('CLOSED')
  })
})

test('a circuit opened by another process is open here, not later than now', async () => {
  const { circuit, at, stateAt } = circuitAtZero()
  circuit.open(at(3_600), at(5))
  expect(circuit.openedAtMs).toBe(at(5))
  expect([5, 34.9, 35].map(stateAt)).toEqual(['OPEN', 'OPEN', 'HALF_OPEN'])
})

test('ten thousand circuits, open ones too, have no timer', async () => {
  const timers = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length
  const before = timers()
  const all = Array.from({ length: 10_000 }, () => new Circuit(CIRCUIT_RULE))
  for (const circuit of all.slice(0, 100)) {
    for (let n = 0; n < 10; n++) await circuit.settle(circuit.era, 'failure', START)
    circuit.beginProbe(START + 30_000)
  }
  expect(all.filter(({ isClosed }) => !isClosed)).toHaveLength(100)
  expect(timers()).toBe(before)
})

test('the window has the same counts as a list of all calls', () => {
  const call = fc.record({ afterMs: fc.integer({ min: -500, max: 12_000 }), failed: fc.boolean() })
  fc.assert(
    fc.property(fc.array(call, { maxLength: 60 }), (calls) => {
      const window = new CallWindow(10_000)
      let kept: { slot: number; failed: boolean }[] = []
      let nowMs = START
      for (const { afterMs, failed } of calls) {
        const before = Math.floor(nowMs / 1_000)
        nowMs += afterMs
        const slot = Math.floor(nowMs / 1_000)
        kept = slot < before ? [] : kept.filter((one) => one.slot > slot - 10)
        kept.push({ slot, failed })
        if (failed) window.failed(nowMs)
        else window.succeeded(nowMs)
        const failures = kept.filter((one) => one.failed).length
        expect(window.isFailing(0.5, 4)).toBe(kept.length >= 4 && failures >= kept.length / 2)
      }
    }),
  )
})
