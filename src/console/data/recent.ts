/** Recently opened objects of this tab, for the palette. Sign-out deletes them. */

export interface Recent {
  readonly kind: string
  readonly id: string
  readonly title: string
  readonly href: string
}

const KEY = 'tenantry-recent'
const MAX = 8

export function recent(): readonly Recent[] {
  try {
    return JSON.parse(sessionStorage.getItem(KEY) ?? '[]')
  } catch {
    return []
  }
}

export function remember(opened: Recent): void {
  const others = recent().filter(({ href }) => href !== opened.href)
  sessionStorage.setItem(KEY, JSON.stringify([opened, ...others].slice(0, MAX)))
}
