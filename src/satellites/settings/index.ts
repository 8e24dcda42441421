import { defineSatellite, type NamedSatellite, type ServiceType } from '../../tenancy/satellite.ts'
import { type Definitions, definedSettings } from './definitions.ts'
import { diagnosis } from './doctor.ts'
import { SettingNotFound, SettingUnusable } from './errors.ts'
import { SettingChanged } from './events.ts'
import { operations } from './operations.ts'
import { Settings } from './settings.ts'
import { bindingOf, KEY } from './stored.ts'
import { tables } from './tables.ts'

export { type Secret, type SettingDefinition, secret } from './definitions.ts'
export { SettingNotFound, SettingUnusable } from './errors.ts'
export { SettingChanged } from './events.ts'
export type { Setting, SettingListener, Settings } from './settings.ts'

export interface SettingsOptions<Define extends Definitions> {
  /** Settings by name: a Zod schema, or `secret(schema)`. In a configuration file also a JSON Schema. */
  readonly define: Define
}

interface SettingsType extends ServiceType {
  readonly service: Settings<this['names']['setting'] extends infer Define extends Definitions ? Define : Definitions>
}

/**
 * Satellite with typed settings and secrets of tenants. The compiler knows their names and types.
 *
 * @example
 *   settings({ define: { 'mail.from': z.email(), 'mail.password': secret(z.string()), 'upload.mb': z.int().default(10) } })
 */
export const settings = <const Define extends Definitions = {}>(
  options?: SettingsOptions<Define>,
): NamedSatellite<'settings', SettingsType, { readonly setting: Define }, 'setting.changed'> => {
  const defined = definedSettings(options?.define ?? {})
  return defineSatellite({
    name: 'settings',
    summary: 'Typed settings and secrets of tenants, with values of plans and defaults',
    sharedOptions: Object.fromEntries(
      Array.from(defined.values(), ({ name, isSecret }) => [`define.${name}`, isSecret ? 'secret' : 'plain']),
    ),
    tables,
    tenantTables: ['settings'],
    encryptedColumns: [{ table: 'settings', key: KEY, column: 'secret', binding: bindingOf }],
    events: [SettingChanged],
    service: (kernel, tenants) => new Settings(kernel, tenants, defined),
    start: (service) => service.start(),
    operations,
    console: new URL('./console/index.tsx', import.meta.url),
    errors: [SettingNotFound, SettingUnusable],
    doctor: [diagnosis],
  })
}

export default settings
