set search_path = multitenancy;
insert into tenants (id, name, status, metadata, domains, isolation, placement, locator, created_at, updated_at) values
  ('acme', 'Acme', 'active', '{"plan": "free"}', '{acme.example.com}', 'schema-pg', 'main', 't_acme', '2026-01-01', '2026-01-02'),
  ('globex', 'Globex', 'suspended', '{}', '{}', 'schema-pg', 'main', 't_globex', '2026-01-03', '2026-01-03');
insert into audit_entries (id, tenant_id, action, actor_type, actor_id, actor_name, target, before, after, outcome, created_at) values
  ('019b0000-0000-7000-8000-000000000001', 'acme', 'tenants.create', 'admin', 'ann', 'ann', 'tenant:acme', null, '{"name": "Acme"}', 'success', '2026-01-01'),
  ('019b0000-0000-7000-8000-000000000002', 'acme', 'tenants.update', 'admin', 'ann', 'ann', 'tenant:acme', '{"name": "A"}', '{"name": "Acme"}', 'success', '2026-02-01');
insert into branding (tenant_id, display_name, primary_color, updated_at) values ('acme', 'Acme', '#1a2b3c', '2026-01-01');
insert into feature_flags (id, tenant_id, key, enabled, rollout_percent, created_at, updated_at) values
  ('5b4be9a2-6a8a-4c5e-9c69-0d8c3ae0c1a1', 'acme', 'dark-mode', true, 50, '2026-01-01', '2026-01-01');
insert into webhook_subscriptions (id, tenant_id, url, events, enabled, secret, created_at, updated_at) values
  ('019b0000-0000-7000-8000-00000000000a', 'acme', 'https://example.com/hook', '{*}', true, '', '2026-01-01', '2026-01-01');
insert into webhook_messages (id, tenant_id, event, body, created_at) values
  ('019b0000-0000-7000-8000-00000000000b', 'acme', 'order.paid', '{"id": 1}', '2026-01-01');
insert into webhook_deliveries (id, message_id, webhook_id, tenant_id, partition_key, event, state, is_ready, attempt_count, last_status, created_at, delivered_at) values
  ('019b0000-0000-7000-8000-00000000000c', '019b0000-0000-7000-8000-00000000000b', '019b0000-0000-7000-8000-00000000000a', 'acme', 'acme', 'order.paid', 'delivered', false, 1, 200, '2026-01-01', '2026-01-01');
insert into tenant_domains (domain, tenant_id) values ('acme.example.com', 'acme');
insert into impersonations (id, tenant_id, user_id, actor_type, actor_id, actor_name, reason, token_hash, created_at, expires_at, ended_at) values
  ('019b0000-0000-7000-8000-00000000000d', 'acme', 'user-42', 'admin', 'ann', 'ann', 'Ticket 4711', 'a', '2026-01-01', '2026-01-02', '2026-01-01 01:00');
insert into metric_sums (day, tenant_id, key, incarnation, value) values
  ('2026-01-01', 'acme', 'exports', '019b0000-0000-7000-8000-00000000000e', 3),
  ('2026-01-01', 'acme', 'exports', '019b0000-0000-7000-8000-00000000000f', 4);
insert into quota_alerts (day, tenant_id, quota, kind) values ('2026-01-01', 'acme', 'exports', 'threshold');
insert into settings (tenant_id, name, value, updated_at) values ('acme', 'mail.from', '"ann@example.com"', '2026-01-01');
insert into sso (tenant_id, issuer, client_id, scopes, redirect_uri, allowed_domains, enabled, enforced, version, updated_at) values
  ('acme', 'https://login.example.com', 'client', '{openid}', 'https://acme.example.com/callback', '{example.com}', true, false, 1, '2026-01-01');
insert into outbox_failed (id, tenant_id, kind, payload, context, posted_at, failed_at, error) values
  ('019b0000-0000-7000-8000-000000000010', 'acme', 'changes.record', '{"action": "notes.create", "target": "note:1"}',
   '{"requestId": null, "actor": {"type": "user", "id": "ann", "name": "Ann"}, "ip": null}', '2026-01-01', '2026-01-01', 'The entry could not be applied.');
insert into api_tokens (id, name, secret_hash, bounds, creator_type, creator_id, creator_name, created_at) values
  ('019b0000-0000-7000-8000-000000000011', 'support', 'a', '[["tenants.get"]]', 'admin', 'ann', 'ann', '2026-01-01');
insert into backups (id, tenant_id, is_scheduled, isolation, is_sealed, size_bytes, sha256, rows, tables, migrations, created_at, completed_at) values
  ('019b0000-0000-7000-8000-000000000012', 'acme', false, 'schema-pg', false, 1024, 'a', 1, 1, '{}', '2026-01-01', '2026-01-01');
