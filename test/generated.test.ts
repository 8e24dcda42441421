/** Checks that generated files in the repository match the code. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Validator } from '@seriousme/openapi-schema-validator'
import { describe, expect, test } from 'vitest'
import { generated } from '../generate.ts'

const ROOT = join(import.meta.dirname, '..')

describe('generated files', () => {
  test.each([...generated()])('%s is up to date (otherwise: npm run generate)', (path, text) => {
    expect(readFileSync(join(ROOT, path), 'utf8')).toBe(text)
  })

  test('an invalid configuration is an error of commands, and of no response', () => {
    const [responses, commands] = (generated().get('docs/reference/errors.md') ?? '').split('which no response has')
    expect(responses).not.toContain('`E_CONFIGURATION`')
    expect(commands).toContain('| `E_CONFIGURATION` | Invalid configuration | 2 |')
    expect(JSON.parse(generated().get('src/console/api/errors.json') ?? '')).not.toHaveProperty('E_CONFIGURATION')
  })

  test('openapi.json is valid OpenAPI 3.1 with the version of the package', async () => {
    const document = JSON.parse(readFileSync(join(ROOT, 'openapi.json'), 'utf8'))
    const { valid, errors } = await new Validator().validate(document)
    expect(errors).toBeUndefined()
    expect(valid).toBe(true)
    expect(document.openapi).toMatch(/^3\.1\./)
    expect(document.info.version).toBe(JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')).version)
  })
})
