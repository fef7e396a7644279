use serde::{Deserialize, Serialize};

/// An order of a shop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// minimum 1
    pub id: i64,
    /// Where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<OrderState>,
    #[serde(rename = "content-type", default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    pub lines: Vec<OrderLinesItem>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Box<Address>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<std::collections::BTreeMap<String, String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<serde_json::Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra: Option<serde_json::Value>,
}

/// Where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OrderState {
    #[serde(rename = "open")]
    Open,
    #[serde(rename = "paid")]
    Paid,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OrderLinesItem {
    pub sku: String,
    /// default 1
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Address {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub street: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Box<Address>>,
}
