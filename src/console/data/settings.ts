/** Settings of the page, which the service writes into an attribute of its root element. */

export interface PageSettings {
  /** Mount path of the admin API, without a trailing slash. */
  readonly prefix: string
  /** Name of the product. */
  readonly name: string
  readonly logo?: string
  /** Links of a tenant to systems of the host; `{id}` is the id of the tenant. */
  readonly links: readonly { readonly title: string; readonly url: string }[]
  /** Path below the prefix to which the button for sample tenants posts. */
  readonly sampleData?: string
  /** Address of each module by the name of its satellite. */
  readonly modules: Readonly<Record<string, string>>
  /** Names of the satellites whose module is of the host. */
  readonly hostModules: readonly string[]
  /** Names of the satellites of the host that have operations. */
  readonly hostSatellites: readonly string[]
}

export const root = document.getElementById('console') as HTMLElement
export const settings: PageSettings = JSON.parse(root.dataset.settings ?? '{}')
