import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { isAddressAmong, isAddressRange, kindOfAddress, networkOf } from './addresses.ts'

const kind = (address: string) => kindOfAddress(address).kind

const hex = (address: string) => {
  const [a = 0, b = 0, c = 0, d = 0] = address.split('.').map(Number)
  return `${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`
}

/** The ways in which IPv6 carries an IPv4 address whose machine is the one that answers. */
const CARRIERS: Readonly<Record<string, (address: string) => string>> = {
  mapped: (address) => `::ffff:${address}`,
  compatible: (address) => `::${address}`,
  NAT64: (address) => `64:ff9b::${address}`,
  '6to4': (address) => `2002:${hex(address)}::1`,
}

describe('an IPv4 address', () => {
  test.each(Object.entries(CARRIERS))('has the same kind inside of an IPv6 address: %s', (_, carry) => {
    fc.assert(
      fc.property(fc.ipV4(), (address) => {
        fc.pre(address !== '0.0.0.0' && address !== '0.0.0.1') // `::` and `::1` are themselves
        expect(kindOfAddress(carry(address))).toEqual(kindOfAddress(address))
      }),
    )
  })

  /** From IANA's registry of special purpose addresses, and what is not given out at all. */
  test.each([
    ['forbidden', '0.0.0.0', '0.255.255.255'],
    ['private', '10.0.0.0', '10.255.255.255'],
    ['private', '100.64.0.0', '100.127.255.255'],
    ['private', '127.0.0.0', '127.255.255.255'],
    ['forbidden', '169.254.0.0', '169.254.255.255'],
    ['private', '172.16.0.0', '172.31.255.255'],
    ['forbidden', '192.0.0.0', '192.0.0.255'],
    ['forbidden', '192.0.2.0', '192.0.2.255'],
    ['forbidden', '192.88.99.0', '192.88.99.255'],
    ['private', '192.168.0.0', '192.168.255.255'],
    ['forbidden', '198.18.0.0', '198.19.255.255'],
    ['forbidden', '198.51.100.0', '198.51.100.255'],
    ['forbidden', '203.0.113.0', '203.0.113.255'],
    ['forbidden', '224.0.0.0', '255.255.255.255'],
  ])('is %s from %s to %s, and public before and after', (expected, first, last) => {
    expect([kind(first), kind(last)]).toEqual([expected, expected])
    if (number(first) > 0) expect(kind(address(number(first) - 1))).toBe('public')
    if (number(last) < 0xffffffff) expect(kind(address(number(last) + 1))).toBe('public')
  })
})

describe('an IPv6 address', () => {
  test('outside of 2000::/3 is never public, unless it carries an IPv4 address', () => {
    fc.assert(
      fc.property(fc.ipV6(), (address) => {
        const first = Number.parseInt(address.split(':')[0] || '0', 16)
        fc.pre(first >> 13 !== 1 && first !== 0 && first !== 0x64)
        expect(kind(address)).not.toBe('public')
      }),
    )
  })

  test.each([
    ['public', '2001:200::1'],
    ['public', '2606:4700:4700::1111'],
    ['public', '2a00:1450:4001:830::200e'],
    ['private', '::1'],
    ['private', 'fc00::'],
    ['private', 'fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
    ['forbidden', '::'],
    ['forbidden', '2001::1'],
    ['forbidden', '2001:1ff:ffff::'],
    ['forbidden', '2001:db8::1'],
    ['forbidden', '64:ff9b:1::808:808'],
    ['forbidden', '::ffff:0:808:808'],
    ['forbidden', 'fe80::1'],
    ['forbidden', 'ff02::1'],
    ['forbidden', 'fd00:ec2::254'],
    ['forbidden', '::ffff:168.63.129.16'],
  ])('is %s: %s', (expected, address) => expect(kind(address)).toBe(expected))

  test.each(['fe80::1%eth0', '2606:4700:4700::1111%eth0'])('with a zone is forbidden: %s', (address) =>
    expect(kind(address)).toBe('forbidden'),
  )
})

describe('a text that is not an address', () => {
  test.each(['', 'example.com', '127.1', '2130706433', '0x7f.0.0.1', '0177.0.0.1', '1.2.3.4.5', '[::1]', ' 8.8.8.8'])(
    'is %j: forbidden',
    (text) => expect(kindOfAddress(text)).toEqual({ kind: 'forbidden', is: 'no address' }),
  )
})

describe('a range of addresses', () => {
  test.each([
    '203.0.113.7',
    '203.0.113.0/24',
    '0.0.0.0/0',
    '203.0.113.7/32',
    '2001:db8::1',
    '2001:db8::/32',
    '::/0',
    '::1/128',
    '::ffff:203.0.113.7',
    '::ffff:203.0.113.0/120',
  ])('is %s', (text) => expect(isAddressRange(text)).toBe(true))

  test.each([
    '',
    '/8',
    'example.com',
    'example.com/8',
    '203.0.113.0/33',
    '2001:db8::/129',
    '203.0.113.0/',
    '203.0.113.0/-1',
    '203.0.113.0/1e1',
    '203.0.113.0/255.255.255.0',
    '203.0.113.0/24/24',
    ' 203.0.113.0/24',
    '203.0.113.0/24 ',
    '203.0.113.0/24\n',
    'fe80::%eth0/10',
    'fe80::1%eth0',
    '[::1]',
    // Texts that libraries parse as other ranges.
    '10/8',
    '10.1/16',
    '010.0.0.0/8',
    '0x0a.0.0.0/8',
    '167772160/8',
  ])('is not %j, and contains no address', (text) => {
    expect(isAddressRange(text)).toBe(false)
    expect(isAddressAmong('10.0.0.1', [text])).toBe(false)
  })

  test.each([
    ['203.0.113.0/24', '203.0.113.0', '203.0.113.255'],
    ['203.0.113.77/24', '203.0.113.0', '203.0.113.255'],
    ['203.0.113.7/32', '203.0.113.7', '203.0.113.7'],
    ['203.0.113.7', '203.0.113.7', '203.0.113.7'],
    ['203.0.112.0/23', '203.0.112.0', '203.0.113.255'],
    ['::ffff:203.0.113.0/120', '203.0.113.0', '203.0.113.255'],
    ['::ffff:203.0.113.7', '203.0.113.7', '203.0.113.7'],
  ])('%s contains exactly %s to %s, also mapped into IPv6', (range, first, last) => {
    for (const carry of [(text: string) => text, (text: string) => `::ffff:${text}`]) {
      expect(isAddressAmong(carry(first), [range])).toBe(true)
      expect(isAddressAmong(carry(last), [range])).toBe(true)
      expect(isAddressAmong(carry(address(number(first) - 1)), [range])).toBe(false)
      expect(isAddressAmong(carry(address(number(last) + 1)), [range])).toBe(false)
    }
  })

  test.each([
    ['2001:db8::/32', '2001:db8::', '2001:db8:ffff:ffff:ffff:ffff:ffff:ffff', '2001:db7:ffff::', '2001:db9::'],
    ['2001:db8::1', '2001:db8::1', '2001:0db8:0:0::1', '2001:db8::', '2001:db8::2'],
    ['fe80::/10', 'fe80::1', 'fe80::1%eth0', 'fec0::', 'fe00::'],
  ])('%s contains %s and %s, and neither %s nor %s', (range, first, last, before, after) => {
    const isIn = (text: string) => isAddressAmong(text, [range])
    expect([first, last, before, after].map(isIn)).toEqual([true, true, false, false])
  })

  test('of one version contains no address of the other', () => {
    expect(isAddressAmong('203.0.113.7', ['::/0'])).toBe(false)
    expect(isAddressAmong('2001:db8::1', ['0.0.0.0/0'])).toBe(false)
    expect(isAddressAmong('::cb00:7107', ['203.0.113.7'])).toBe(false)
  })

  test('matches if one of several matches; an empty list matches no address', () => {
    const ranges = ['203.0.113.0/24', '2001:db8::/32', '198.51.100.7']
    const isIn = (text: string) => isAddressAmong(text, ranges)
    expect(['198.51.100.7', '2001:db8::9', '203.0.113.9'].every(isIn)).toBe(true)
    expect(['198.51.100.8', '', 'unknown', '203.0.113.9:443', '203.0.113', 'localhost'].some(isIn)).toBe(false)
    expect(isAddressAmong('203.0.113.9', [])).toBe(false)
  })

  test('of any length contains exactly the addresses with its prefix', () => {
    fc.assert(
      fc.property(fc.ipV4(), fc.ipV4(), fc.integer({ min: 0, max: 32 }), (text, other, bits) => {
        const begins = (of: string) => (bits === 0 ? 0 : number(of) >>> (32 - bits))
        expect(isAddressAmong(other, [`${text}/${bits}`])).toBe(begins(text) === begins(other))
      }),
    )
  })
})

const number = (text: string) => text.split('.').reduce((sum, part) => sum * 256 + Number(part), 0)
const address = (of: number) => [24, 16, 8, 0].map((bits) => (of >>> bits) & 0xff).join('.')

test.each([
  ['203.0.113.7', '203.0.113.7'],
  ['::ffff:203.0.113.7', '203.0.113.7'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
  ['2001:DB8:1:2::', '2001:db8:1:2::/64'],
  ['fe80::1%eth0', 'fe80::/64'],
  ['::1', '::/64'],
  ['203.0.113.7, 10.0.0.1', undefined],
  ['203.0.113.7:80', undefined],
  ['localhost', undefined],
  ['', undefined],
])('the network of "%s" is %s', (address, network) => {
  expect(networkOf(address)).toBe(network)
})
