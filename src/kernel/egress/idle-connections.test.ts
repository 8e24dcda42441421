import { LRUCache } from 'lru-cache'
import { describe, expect, test } from 'vitest'
import { Lane, type Ways } from './connection.ts'
import { bySystem, Names } from './dns.ts'
import { IdleLanes } from './idle-connections.ts'

const ways: Ways = { names: new Names(bySystem()), isAllowed: () => false, sessions: new LRUCache({ max: 1 }) }

/** Not connected: a lane dials when it is given something to do. */
const lane = (origin: string) =>
  new Lane({ origin, isSecure: true, host: 'example.com', port: 443, path: '/' }, ways, () => undefined)

describe('idle connections', () => {
  test('the one used last is taken first, of its origin', () => {
    const idle = new IdleLanes()
    const [one, two, other] = [lane('https://a.example'), lane('https://a.example'), lane('https://b.example')]
    for (const each of [one, two, other]) expect(idle.add(each)).toBeUndefined()
    expect([1, 2, 3].map(() => idle.take('https://a.example'))).toEqual([two, one, undefined])
    expect(idle.take('https://b.example')).toBe(other)
    expect(idle.size).toBe(0)
  })

  test('one that is lost is not taken', () => {
    const idle = new IdleLanes()
    const [one, two] = [lane('https://a.example'), lane('https://a.example')]
    idle.add(one)
    idle.add(two)
    expect([idle.remove(one), idle.remove(one)]).toEqual([true, false])
    expect([idle.take('https://a.example'), idle.take('https://a.example')]).toEqual([two, undefined])
    expect(idle.remove(two)).toBe(false)
  })

  test('of more than a thousand, those that waited longest have to go', () => {
    const idle = new IdleLanes()
    const lanes = Array.from({ length: 1_003 }, (_, i) => lane(`https://${i % 2}.example`))
    expect(lanes.map((each) => idle.add(each)).filter(Boolean)).toEqual(lanes.slice(0, 3))
    expect(idle.size).toBe(1_000)
    expect(idle.take('https://1.example')).toBe(lanes[1_001])
    expect(idle.take('https://0.example')).toBe(lanes[1_002])
  })
})
