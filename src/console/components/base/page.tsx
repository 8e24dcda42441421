/** Parts of a page: header with the title of the browser's tab, sections, facts, empty state. */
import { type ReactNode, useEffect } from 'react'
import { settings } from '../../data/settings.ts'
import { focusNewHeading } from '../../routing/focus.ts'

interface PageHeaderProps {
  readonly title: string
  /** Parts of the tab title after the title: the tenant. */
  readonly context?: string
  readonly lead?: ReactNode
  /** Buttons. */
  readonly children?: ReactNode
}

/** The `<h1>` of a page. It receives the focus after a navigation. */
export function PageHeader({ title, context, lead, children }: PageHeaderProps) {
  useEffect(focusNewHeading, [])
  return (
    <header className="page-header">
      <title>{[title, context, settings.name].filter(Boolean).join(' · ')}</title>
      <div>
        <h1 tabIndex={-1}>{title}</h1>
        {lead && <p className="lead">{lead}</p>}
      </div>
      {children && <div className="page-actions">{children}</div>}
    </header>
  )
}

export const Section = ({ title, actions, children }: { title: string; actions?: ReactNode; children: ReactNode }) => (
  <section className="section">
    <header>
      <h2>{title}</h2>
      {actions && <div className="section-actions">{actions}</div>}
    </header>
    {children}
  </section>
)

export const Card = ({ title, href, children }: { title: string; href?: string | undefined; children: ReactNode }) => (
  <section className="card">
    <h2>{href ? <a href={href}>{title}</a> : title}</h2>
    {children}
  </section>
)

/** Pairs of a name and a value. A pair without a value is left out. */
export const Facts = ({ facts }: { facts: Readonly<Record<string, ReactNode>> }) => (
  <dl className="facts">
    {Object.entries(facts)
      .filter(([, value]) => value !== undefined && value !== null && value !== false && value !== '')
      .map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
  </dl>
)

interface EmptyProps {
  readonly title: string
  readonly children?: ReactNode
  readonly actions?: ReactNode
}

export const Empty = ({ title, children, actions }: EmptyProps) => (
  <div className="empty">
    <p className="empty-title">{title}</p>
    {children && <div className="empty-text">{children}</div>}
    {actions && <div className="empty-actions">{actions}</div>}
  </div>
)
