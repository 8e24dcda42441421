/** `tenantry/console` outside of the page. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

test('an import reports that the page of the console has it', async () => {
  await expect(import('./unavailable.ts')).rejects.toThrow('"tenantry/console" exists only in the page of the console.')
})

test('each name that the page exports leads to the error', () => {
  const read = (file: string) => readFileSync(join(import.meta.dirname, file), 'utf8')
  const namesIn = (text: string) => text.split(',').flatMap((name) => (/^\s*(type .*)?$/.test(name) ? [] : name.trim()))
  const exported = [...read('../../console/shared/console.ts').matchAll(/^export \{([^}]*)\}/gm)]
  const unavailable = /^export const \{([^}]*)\}/m.exec(read('unavailable.ts'))?.[1] ?? ''
  expect(namesIn(unavailable).toSorted()).toEqual(exported.flatMap(([, names = '']) => namesIn(names)).toSorted())
})
