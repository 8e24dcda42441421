/** Types of the list of built-in satellites. */
import { expect, test } from 'vitest'
import { sso } from '../src/satellites/sso/index.ts'
import { builtInSatellites } from '../src/service/satellites.ts'

test('a disabled satellite is not in the type of the list', () => {
  const list = builtInSatellites({ sso: false })
  // @ts-expect-error the list has no such satellite
  const disabled: (typeof list)[number]['name'] = 'sso'
  expect(disabled).toBe(sso().name)
  expect(list.map(({ name }): string => name)).not.toContain(disabled)
})
